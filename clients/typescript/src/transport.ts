/** Sends requests with the API key, within a time limit, and repeats those that may succeed later. */

import { Deadline, pause } from "./deadline.js";
import { AgentJobsError, ApiError, ServiceUnreachable, errorFrom, unexpected } from "./errors.js";
import { Retry } from "./retry.js";
import { EventParser, type ServerSentEvent } from "./server-sent-events.js";

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_RETRIES = 4;
// Longer than a service needs to drain, stop and start again.
const DEFAULT_TOLERANCE_MS = 120_000;
// The service sends keep-alives more often than this.
const MAX_SILENCE_MS = 60_000;
// What Node.js, Deno and Bun say of a server without TLS.
const NO_TLS = /wrong version number|packet length too long|InvalidContentType|Does the server speak TLS/;

export interface ClientOptions {
  /** The address of the service, such as `https://jobs.example.com/v1`. */
  baseUrl: string;
  apiKey: string;
  /** How long a request may take; 30 seconds by default. */
  timeoutMs?: number | undefined;
  /** How often a request is repeated; 4 times by default. */
  maxRetries?: number | undefined;
  /** How long `wait`, `watch`, `logs` and `follow` wait for a service that is restarting; 2 minutes by default. */
  outageToleranceMs?: number | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch | undefined;
  /** Called for each response of something that a later version removes; by default it is logged, once. */
  onDeprecation?: ((notice: DeprecationNotice) => void) | undefined;
}

export interface DeprecationNotice {
  /** The method and the address. */
  request: string;
  /** The removal, as the header `Sunset` has it. */
  sunset: string | null;
  /** Where the deprecation is explained. */
  link: string | null;
}

export interface CallOptions {
  /** Ends the call, which then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface ApiRequest {
  method: "GET" | "POST";
  path: string;
  query?: Query;
  headers?: Record<string, string>;
  body?: unknown;
  /** How long the service may wait before it responds. */
  waitSeconds?: number;
  /** Whether repeating it changes nothing more, as for every GET. */
  isRepeatable?: boolean;
}

type Reader<T> = (response: Response, name: string) => Promise<T>;

export class Transport {
  readonly #baseUrl: string;
  readonly #apiKey: string;
  readonly #timeoutMs: number;
  readonly #maxRetries: number;
  readonly #outageToleranceMs: number;
  readonly #fetch: typeof fetch;
  readonly #onDeprecation: (notice: DeprecationNotice) => void;

  constructor(options: ClientOptions) {
    this.#baseUrl = normalizeBaseUrl(options.baseUrl);
    this.#apiKey = checkKey(options.apiKey);
    this.#timeoutMs = checkNumber("timeoutMs", options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    this.#maxRetries = checkNumber("maxRetries", options.maxRetries ?? DEFAULT_RETRIES);
    this.#outageToleranceMs = checkNumber("outageToleranceMs", options.outageToleranceMs ?? DEFAULT_TOLERANCE_MS);
    // Browsers refuse to call it as a method of another object.
    this.#fetch = options.fetch ?? ((...parameters) => globalThis.fetch(...parameters));
    this.#onDeprecation = options.onDeprecation ?? logOnce();
  }

  /** The JSON object of the response, which must have `field`. */
  async json<T extends object>(request: ApiRequest, field: keyof T & string, options: CallOptions = {}): Promise<T> {
    return this.#send(request, readJson<T>(field), options);
  }

  /** Without retries. */
  async jsonOnce<T extends object>(request: ApiRequest, field: keyof T & string, options: CallOptions): Promise<T> {
    return this.#sendOnce(request, readJson<T>(field), options);
  }

  async text(request: ApiRequest, mediaType: string, options: CallOptions = {}): Promise<string> {
    const headers = { Accept: mediaType, ...request.headers };
    return this.#send({ ...request, headers }, readText(mediaType), options);
  }

  async download(request: ApiRequest, options: CallOptions = {}): Promise<Uint8Array> {
    return this.#send(request, readDownload, options);
  }

  /** The events of one connection. `onData` is called for keep-alives too. */
  async *events(request: ApiRequest, onData: () => void, options: CallOptions): AsyncGenerator<ServerSentEvent> {
    const [url, init] = this.#prepare(request);
    const deadline = new Deadline(options.signal);
    try {
      deadline.start(this.#timeoutMs);
      const response = await this.#respond(url, { ...init, signal: deadline.signal });
      const reader = eventStream(response, nameOf(request)).getReader();
      const decoder = new TextDecoder();
      const parser = new EventParser();
      for (;;) {
        deadline.start(MAX_SILENCE_MS);
        const { done, value } = await reader.read();
        // The caller may take any time for an event.
        deadline.stop();
        if (done) return;
        onData();
        yield* parser.feed(decoder.decode(value, { stream: true }));
      }
    } catch (error) {
      throw this.#explain(error, deadline, options);
    } finally {
      deadline.close();
    }
  }

  retry(): Retry {
    return new Retry({ maxRetries: this.#maxRetries });
  }

  retryDuringOutage(): Retry {
    return new Retry({ maxRetries: this.#maxRetries, outageToleranceMs: this.#outageToleranceMs });
  }

  async #send<T>(request: ApiRequest, read: Reader<T>, options: CallOptions): Promise<T> {
    const retry = this.retry();
    for (;;) {
      try {
        return await this.#sendOnce(request, read, options);
      } catch (error) {
        if (!mayRepeat(request, error)) throw error;
        await pause(retry.delayAfter(error), options.signal);
      }
    }
  }

  async #sendOnce<T>(request: ApiRequest, read: Reader<T>, options: CallOptions): Promise<T> {
    const [url, init] = this.#prepare(request);
    const deadline = new Deadline(options.signal);
    try {
      deadline.start(this.#timeoutMs + (request.waitSeconds ?? 0) * 1000);
      const response = await this.#respond(url, { ...init, signal: deadline.signal });
      return await read(response, nameOf(request));
    } catch (error) {
      throw this.#explain(error, deadline, options);
    } finally {
      deadline.close();
    }
  }

  /** Throws a TypeError for what no request can contain. */
  #prepare(request: ApiRequest): [string, RequestInit] {
    const headers = new Headers(request.headers);
    headers.set("Authorization", `Bearer ${this.#apiKey}`);
    const init: RequestInit = { method: request.method, headers, redirect: "manual" };
    if (request.body !== undefined) {
      headers.set("Content-Type", "application/json");
      init.body = JSON.stringify(request.body);
    }
    return [this.#baseUrl + request.path + queryString(request), init];
  }

  async #respond(url: string, init: RequestInit): Promise<Response> {
    const response = await this.#fetch(url, init);
    const request = `${init.method} ${url}`;
    if (response.headers.has("deprecation")) {
      const link = response.headers.get("link")?.match(/<([^>]*)>;[^,]*rel="deprecation"/)?.[1] ?? null;
      this.#onDeprecation({ request, sunset: response.headers.get("sunset"), link });
    }
    if (!response.ok) throw await errorFrom(response, request);
    return response;
  }

  #explain(error: unknown, deadline: Deadline, options: CallOptions): unknown {
    if (error instanceof AgentJobsError) return error;
    if (options.signal?.aborted === true) return options.signal.reason;
    const reason = deadline.expired ? "it did not respond in time" : describe(error);
    return new ServiceUnreachable(`${this.#baseUrl} cannot be reached: ${reason}`, { cause: error });
  }
}

/** A part of a path. */
export function segment(value: string): string {
  // URLs remove these, and the request would go to another path.
  if (typeof value !== "string" || value === "" || value === "." || value === "..") {
    throw new TypeError(`${JSON.stringify(value)} is not an identifier`);
  }
  return encodeURIComponent(value);
}

function normalizeBaseUrl(baseUrl: string): string {
  const stem = String(baseUrl).trim().replace(/\/+$/, "");
  const url = URL.canParse(stem) ? new URL(stem) : null;
  const isPlain = url !== null && url.username === "" && url.search === "" && url.hash === "";
  if (!isPlain || !["http:", "https:"].includes(url.protocol)) {
    throw new TypeError(`${JSON.stringify(baseUrl)} is not a valid base URL; use the form https://…/v1`);
  }
  return stem.endsWith("/v1") ? stem : `${stem}/v1`;
}

function checkKey(apiKey: string): string {
  if (typeof apiKey !== "string" || !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError("the API key is empty or contains invalid characters; check that it was copied whole");
  }
  return apiKey;
}

function logOnce(): (notice: DeprecationNotice) => void {
  const logged = new Set<string>();
  return ({ request, sunset, link }) => {
    const key = `${link} ${sunset}`;
    if (logged.has(key)) return;
    logged.add(key);
    const removal = sunset === null ? "will be removed" : `will be removed on ${sunset}`;
    console.warn(`${request} is deprecated and ${removal}; see ${link ?? "the service's documentation"}`);
  };
}

function checkNumber(name: string, value: number): number {
  if (!(value >= 0)) throw new TypeError(`${name} must be a number of at least 0, not ${value}`);
  return value;
}

function queryString({ query = {}, waitSeconds }: ApiRequest): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...query, wait_seconds: waitSeconds })) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) params.append(name, String(each));
    }
  }
  return params.size === 0 ? "" : `?${params}`;
}

function mayRepeat(request: ApiRequest, error: unknown): boolean {
  if (request.method === "GET" || request.isRepeatable === true) return true;
  // Otherwise the request may have been carried out, and only its response was lost.
  return error instanceof ApiError;
}

function nameOf(request: ApiRequest): string {
  return `${request.method} ${request.path}`;
}

function readJson<T extends object>(field: string): Reader<T> {
  return async (response, name) => {
    const text = await response.text();
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw unexpected(response, name, `returned ${mediaTypeOf(response)} instead of JSON`);
    }
    if (typeof value !== "object" || value === null || !(field in value)) {
      throw unexpected(response, name, `returned JSON without \`${field}\``);
    }
    return value as T;
  };
}

function readText(mediaType: string): Reader<string> {
  return async (response, name) => {
    if (mediaTypeOf(response) !== mediaType) {
      throw unexpected(response, name, `returned ${mediaTypeOf(response)} instead of ${mediaType}`);
    }
    return response.text();
  };
}

async function readDownload(response: Response, name: string): Promise<Uint8Array> {
  if (!response.headers.get("content-disposition")?.startsWith("attachment")) {
    throw unexpected(response, name, `returned ${mediaTypeOf(response)} instead of a download`);
  }
  return new Uint8Array(await response.arrayBuffer());
}

function eventStream(response: Response, name: string): ReadableStream<Uint8Array> {
  if (mediaTypeOf(response) !== "text/event-stream" || response.body === null) {
    throw unexpected(response, name, `returned ${mediaTypeOf(response)} instead of an event stream`);
  }
  return response.body;
}

function mediaTypeOf(response: Response): string {
  return (response.headers.get("content-type") ?? "no content type").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

/** Node's `fetch` says only "fetch failed"; its cause has the reason. */
function describe(error: unknown): string {
  const source = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(source instanceof Error)) return String(source);
  const reason = source.message || ("code" in source ? String(source.code) : source.name);
  return NO_TLS.test(reason) ? "it does not use TLS; try http:// instead of https://" : reason.trim();
}
