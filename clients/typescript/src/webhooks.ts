/** Verifies the signature of a webhook before parsing it. Needs only Web Crypto. */

import { AgentJobsError } from "./errors.js";
import type { WebhookPayload } from "./types.js";

const DEFAULT_TOLERANCE_SECONDS = 300;
// The second header exists only while a new secret is pending.
const BODY_SIGNATURES = ["x-service-signature-256", "x-service-signature-256-next"];

/** Not from the service, modified in transit, or too old. Respond with 401. */
export class InvalidSignature extends AgentJobsError {
  override name = "InvalidSignature";
}

/** The signature is valid, but the body is not a known event. */
export class UnknownPayload extends AgentJobsError {
  override name = "UnknownPayload";
}

/** The five fields of the body, and fields from the headers. */
export interface WebhookEvent extends WebhookPayload {
  /** The same for every endpoint, retry and redelivery. Signed, unless the tolerance is null. */
  eventId: string | null;
  /** The delivery to this endpoint, as in the delivery log. Not signed. */
  deliveryId: string | null;
  /** Numbers the events of one job. Not signed. */
  sequence: number | null;
}

export interface VerifyOptions {
  /** How far `webhook-timestamp` may be off; null skips this check, which then does not detect replays. */
  toleranceSeconds?: number | null | undefined;
  /** The current time in milliseconds. */
  now?: (() => number) | undefined;
}

/** As frameworks pass them: a `Headers` object, or an object with names in any case. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Returns the event, or throws InvalidSignature. `body` is the raw body as received, before any parsing.
 * Pass all valid secrets while a secret is being rotated.
 */
export async function verifyWebhook(
  body: Uint8Array | ArrayBuffer | string,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<WebhookEvent> {
  const bytes = toBytes(body);
  const secrets = parseSecrets(secret);
  const values = normalizeHeaders(headers);
  const tolerance = options.toleranceSeconds === undefined ? DEFAULT_TOLERANCE_SECONDS : options.toleranceSeconds;
  await checkBodySignature(bytes, values, secrets);
  if (tolerance !== null) {
    const timestamp = await checkTimedSignature(bytes, values, secrets);
    checkAge(timestamp, (options.now ?? Date.now)() / 1000, tolerance);
  }
  return parseEvent(bytes, values);
}

type Values = ReadonlyMap<string, string>;

function toBytes(body: Uint8Array | ArrayBuffer | string): Uint8Array {
  if (typeof body === "string") return new TextEncoder().encode(body);
  // Objects of other realms, as in test runners, are no instances of this realm's classes.
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  if (Object.prototype.toString.call(body) === "[object ArrayBuffer]") return new Uint8Array(body);
  throw new TypeError("verifyWebhook needs the raw body as bytes or text; read it before a framework parses it");
}

function parseSecrets(secret: string | readonly string[]): string[] {
  // A secret from a file often ends with a newline.
  const secrets = (typeof secret === "string" ? [secret] : [...(secret ?? [])]).map((each) => each?.trim());
  // Anyone can sign with an empty key.
  if (secrets.length === 0 || !secrets.every(Boolean)) {
    throw new TypeError("verifyWebhook needs the endpoint's secret, but it is empty");
  }
  return secrets;
}

function normalizeHeaders(headers: WebhookHeaders): Values {
  const entries: Iterable<[string, unknown]> = isIterable(headers) ? headers : Object.entries(headers);
  const values = new Map<string, string>();
  for (const [name, value] of entries) {
    const text = Array.isArray(value) ? value[0] : value;
    if (typeof text === "string") values.set(name.toLowerCase(), text);
  }
  return values;
}

function isIterable(headers: WebhookHeaders): headers is Headers {
  return Symbol.iterator in headers;
}

async function checkBodySignature(body: Uint8Array, values: Values, secrets: string[]): Promise<void> {
  const signatures = BODY_SIGNATURES.flatMap((name) => values.get(name) ?? []);
  if (signatures.length === 0) throw new InvalidSignature("The header X-Service-Signature-256 is missing.");
  const keys = secrets.map((secret) => new TextEncoder().encode(secret));
  const expected = await Promise.all(keys.map(async (key) => `sha256=${toHex(await sign(key, body))}`));
  if (!anyEqual(expected, signatures)) {
    throw new InvalidSignature(
      "X-Service-Signature-256 does not match: the secret differs or the body was modified. " +
        "Verify the raw bytes before any parsing.",
    );
  }
}

/** Returns the timestamp. */
async function checkTimedSignature(body: Uint8Array, values: Values, secrets: string[]): Promise<string> {
  const id = required(values, "webhook-id");
  const timestamp = required(values, "webhook-timestamp");
  const signatures = required(values, "webhook-signature").split(" ");
  const content = concatenate(new TextEncoder().encode(`${id}.${timestamp}.`), body);
  const keys = secrets.flatMap((secret) => decodeKey(secret) ?? []);
  const expected = await Promise.all(keys.map(async (key) => `v1,${toBase64(await sign(key, content))}`));
  if (!anyEqual(expected, signatures)) {
    throw new InvalidSignature(
      "webhook-signature does not match: the secret differs, or webhook-id or webhook-timestamp was modified.",
    );
  }
  return timestamp;
}

function required(values: Values, name: string): string {
  const value = values.get(name);
  if (value === undefined) throw new InvalidSignature(`The header ${name} is missing.`);
  return value;
}

function checkAge(timestamp: string, nowSeconds: number, toleranceSeconds: number): void {
  if (!/^\d+$/.test(timestamp)) throw new InvalidSignature("webhook-timestamp is not a number.");
  const age = nowSeconds - Number(timestamp);
  if (Math.abs(age) > toleranceSeconds) {
    const direction = age > 0 ? "old" : "ahead";
    throw new InvalidSignature(
      `webhook-timestamp is ${Math.abs(age).toFixed(0)} s ${direction}, more than the allowed ` +
        `${toleranceSeconds} s; check the clock.`,
    );
  }
}

function parseEvent(body: Uint8Array, values: Values): WebhookEvent {
  let payload: unknown;
  try {
    payload = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new UnknownPayload("The signature is valid, but the body is not JSON.");
  }
  if (!isPayload(payload)) throw new UnknownPayload("The signature is valid, but the body is not an event.");
  const sequence = values.get("x-service-sequence") ?? "";
  return {
    ...payload,
    pr_url: payload.pr_url ?? null,
    eventId: values.get("webhook-id") ?? null,
    deliveryId: values.get("x-service-delivery") ?? null,
    sequence: /^\d+$/.test(sequence) ? Number(sequence) : null,
  };
}

function isPayload(value: unknown): value is WebhookPayload {
  if (typeof value !== "object" || value === null) return false;
  const fields = value as Record<string, unknown>;
  return ["event", "job_id", "repo", "timestamp"].every((name) => typeof fields[name] === "string");
}

async function sign(key: Uint8Array, content: Uint8Array): Promise<Uint8Array> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key as BufferSource, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, content as BufferSource));
}

/** The key of `webhook-signature`; null if the secret is not base64. */
function decodeKey(secret: string): Uint8Array | null {
  try {
    const binary = atob(secret.replace(/^whsec_/, ""));
    return binary === "" ? null : Uint8Array.from(binary, (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

function concatenate(first: Uint8Array, second: Uint8Array): Uint8Array {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

/** Compares every pair in constant time. */
function anyEqual(expected: readonly string[], signatures: readonly string[]): boolean {
  let isAnyEqual = false;
  for (const value of expected) {
    for (const signature of signatures) isAnyEqual = isEqual(value, signature) || isAnyEqual;
  }
  return isAnyEqual;
}

function isEqual(expected: string, signature: string): boolean {
  let difference = expected.length ^ signature.length;
  for (let index = 0; index < expected.length; index += 1) {
    // Beyond the end of `signature` this is NaN, which counts as 0.
    difference |= expected.charCodeAt(index) ^ signature.charCodeAt(index);
  }
  return difference === 0;
}
