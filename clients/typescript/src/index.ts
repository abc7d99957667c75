export { AgentJobs } from "./client.js";
export {
  AgentJobsError,
  ApiError,
  type ErrorCode,
  type ErrorDetails,
  NotSupported,
  ServiceUnreachable,
  UnexpectedResponse,
} from "./errors.js";
export {
  type CreateOptions,
  type Jobs,
  type LogOptions,
  type LogTextOptions,
  type WaitOptions,
  WaitTimeout,
  isFinished,
} from "./jobs.js";
export { collect } from "./pages.js";
export type { Agents, EventOptions, EventPageOptions, Events, Pulls, Repositories, Vulnerabilities } from "./resources.js";
export type { CallOptions, ClientOptions, DeprecationNotice } from "./transport.js";
export type * from "./types.js";
export {
  InvalidSignature,
  UnknownPayload,
  type VerifyOptions,
  type WebhookEvent,
  type WebhookHeaders,
  verifyWebhook,
} from "./webhooks.js";
