/** Decides whether and when a failed call is repeated. Does not wait itself. */

import { AgentJobsError, ApiError, UnexpectedResponse } from "./errors.js";

/** The longest wait of a long poll. */
export const MAX_WAIT_SECONDS = 60;
const FIRST_DELAY_MS = 200;
const MAX_BACKOFF_MS = 5_000;
const MAX_DELAY_MS = 30_000;

export interface RetryLimits {
  maxRetries: number;
  /** Once the service has responded, failures are tolerated for this long, whatever their number. */
  outageToleranceMs?: number;
}

/** Counts consecutive failures. */
export class Retry {
  failures = 0;
  #isKnown = false;
  #failingSince = 0;
  readonly #limits: RetryLimits;

  constructor(limits: RetryLimits) {
    this.#limits = limits;
  }

  recordSuccess(): void {
    this.failures = 0;
    this.#isKnown = true;
  }

  /** Milliseconds until the next attempt. Throws the error if no retry is left. */
  delayAfter(error: unknown): number {
    const now = Date.now();
    // An error in the service's format proves that the service responded.
    this.#isKnown ||= error instanceof ApiError;
    if (this.failures === 0) this.#failingSince = now;
    if (!(error instanceof AgentJobsError) || !error.retryable) throw error;
    const delay = retryDelay(error, this.failures);
    if (this.#isExhausted(now + delay)) throw error;
    this.failures += 1;
    return delay;
  }

  #isExhausted(nextTryAt: number): boolean {
    const { maxRetries, outageToleranceMs } = this.#limits;
    // The time limit applies only to a service that has responded, so that a wrong address fails soon.
    if (outageToleranceMs === undefined || !this.#isKnown) return this.failures >= maxRetries;
    return nextTryAt - this.#failingSince > outageToleranceMs;
  }
}

/** Milliseconds until a stream is opened again. */
export function pollDelay(): number {
  return jitter(750, 1250);
}

/** Milliseconds between two long polls. A service that is shutting down responds without waiting. */
export function delayWithoutChange(askedAt: number): number {
  return Date.now() - askedAt < (MAX_WAIT_SECONDS * 1000) / 2 ? pollDelay() : 0;
}

function retryDelay(error: AgentJobsError, failures: number): number {
  const backoff = Math.min(FIRST_DELAY_MS * 2 ** Math.min(failures, 10), MAX_BACKOFF_MS) * jitter(0.5, 1);
  const requested =
    error instanceof ApiError || error instanceof UnexpectedResponse ? (error.retryAfterMs ?? 0) : 0;
  return Math.min(Math.max(backoff, requested), MAX_DELAY_MS);
}

function jitter(minimum: number, maximum: number): number {
  return minimum + Math.random() * (maximum - minimum);
}
