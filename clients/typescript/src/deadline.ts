/** Time limits that can be combined with a caller's signal. */

const MAX_TIMER_MS = 2 ** 31 - 1;

/** A signal that is aborted by the caller's signal, or when the time of `start` is over. */
export class Deadline {
  expired = false;
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(caller: AbortSignal | undefined) {
    this.#caller = caller;
    caller?.throwIfAborted();
    caller?.addEventListener("abort", this.#abort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Replaces the time of an earlier call. */
  start(milliseconds: number): void {
    if (!(milliseconds >= 0)) throw new TypeError(`${milliseconds} is not a number of milliseconds`);
    this.stop();
    // A timer cannot be longer, and would end at once.
    if (milliseconds > MAX_TIMER_MS) return;
    this.#timer = setTimeout(() => {
      this.expired = true;
      this.#controller.abort();
    }, milliseconds);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Ends what still uses the signal. */
  close(): void {
    this.stop();
    this.#caller?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  readonly #abort = (): void => this.#controller.abort();
}

export async function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    signal?.addEventListener("abort", finish);
  });
  signal?.throwIfAborted();
}
