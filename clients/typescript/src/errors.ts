/** The errors of this package. An aborted call throws the reason of its signal instead. */

import type { components } from "./generated/schema.js";

export type ErrorCode = components["schemas"]["Error"]["code"];
export type ErrorDetails = components["schemas"]["Error"]["details"];

export class AgentJobsError extends Error {
  override name = "AgentJobsError";

  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return false;
  }
}

/** No response: the address is wrong, or the service or the network is down. */
export class ServiceUnreachable extends AgentJobsError {
  override name = "ServiceUnreachable";

  override get retryable(): boolean {
    return true;
  }
}

const RETRYABLE_STATUSES = new Set([429, 502, 503, 504]);

/** A response that is not the service's, such as a proxy's error page. */
export class UnexpectedResponse extends AgentJobsError {
  override name = "UnexpectedResponse";

  constructor(
    message: string,
    readonly status: number,
    readonly retryAfterMs: number | null = null,
  ) {
    super(message);
  }

  override get retryable(): boolean {
    return RETRYABLE_STATUSES.has(this.status);
  }
}

// The first copy of a call is still running, or the service refused to begin. A full queue is left to the caller.
const RETRYABLE_CODES: ReadonlySet<string> = new Set(["rate_limited", "unavailable", "idempotency_in_progress"]);

/** An error of the service. `code` is stable, and `message` says what to do next. */
export class ApiError extends AgentJobsError {
  override name = "ApiError";

  constructor(
    message: string,
    readonly status: number,
    readonly code: ErrorCode,
    /** Identifies the request in the service's log. */
    readonly requestId: string | null,
    /** Every invalid field, or further information that depends on the code. */
    readonly details: ErrorDetails | null,
    readonly retryAfterMs: number | null,
  ) {
    super(message);
  }

  override get retryable(): boolean {
    return RETRYABLE_CODES.has(this.code) || (this.status !== 429 && RETRYABLE_STATUSES.has(this.status));
  }
}

/** The service is older than this client: it does not have the operation, or ignored a filter. */
export class NotSupported extends ApiError {
  override name = "NotSupported";
}

/** The error of an unsuccessful response. */
export async function errorFrom(response: Response, request: string): Promise<AgentJobsError> {
  const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"));
  const error = parseError(await response.text());
  if (error === null) {
    return new UnexpectedResponse(`${request} ${complaint(response)}`, response.status, retryAfterMs);
  }
  const requestId = error.request_id ?? response.headers.get("x-request-id");
  const fields = [response.status, error.code, requestId, error.details ?? null, retryAfterMs] as const;
  if (error.code !== "not_found") return new ApiError(error.message, ...fields);
  return new NotSupported(`${error.message} The service may be older than this client.`, ...fields);
}

/** For a successful response that this package cannot use. */
export function unexpected(response: Response, request: string, fault: string): UnexpectedResponse {
  return new UnexpectedResponse(`${request} ${fault}; ${ADVICE}`, response.status);
}

const ADVICE = "check that the address is the service's and ends in /v1";

function complaint(response: Response): string {
  // Browsers hide the status and the target of a redirect.
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    const target = response.headers.get("location");
    return `redirects${target === null ? "" : ` to ${target}`}; use the address of the service itself`;
  }
  return `returned ${response.status} in an unknown format; ${ADVICE}`;
}

function parseError(text: string): components["schemas"]["Error"] | null {
  try {
    const error: unknown = JSON.parse(text)?.error;
    return isError(error) ? error : null;
  } catch {
    return null;
  }
}

function isError(value: unknown): value is components["schemas"]["Error"] {
  if (typeof value !== "object" || value === null) return false;
  const { code, message } = value as Record<string, unknown>;
  return typeof code === "string" && typeof message === "string";
}

/** Seconds, or a date. */
function parseRetryAfter(text: string | null): number | null {
  if (text === null) return null;
  const milliseconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : null;
}
