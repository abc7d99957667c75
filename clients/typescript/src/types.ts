/** The types of requests and responses, by their names in the OpenAPI document. */

import type { components, operations } from "./generated/schema.js";

type Schemas = components["schemas"];
type QueryOf<Operation extends keyof operations> = NonNullable<operations[Operation]["parameters"]["query"]>;

export type Agent = Schemas["Agent"];
export type AgentDetails = Schemas["AgentDetails"];
export type Artifact = Schemas["Artifact"];
export type Caller = Schemas["Caller"];
export type Dependency = Schemas["Dependency"];
export type DependencyList = Schemas["DependencyList"];
export type Diff = Schemas["Diff"];
export type DiffFile = Schemas["DiffFile"];
export type Event = Schemas["Event"];
export type EventPage = Schemas["EventPage"];
export type Job = Schemas["Job"];
export type JobError = Schemas["JobError"];
export type JobList = Schemas["JobList"];
export type JobStatus = Job["status"];
export type JobStep = Schemas["JobStep"];
export type JobStepList = Schemas["JobStepList"];
export type OrganizationEvent = Schemas["OrganizationEvent"];
export type Pull = Schemas["Pull"];
export type PullList = Schemas["PullList"];
export type Receipt = Schemas["Receipt"];
export type Repository = Schemas["Repository"];
export type UsageReport = Schemas["UsageReport"];
export type WebhookPayload = Schemas["WebhookPayload"];

export type CreateJobRequest = Schemas["CreateJobRequest"];
export type FollowUpRequest = Schemas["FollowUpRequest"];
export type MergePullRequest = Schemas["MergePullRequest"];
export type Vulnerability = Schemas["Vulnerability"];
export type VulnerabilityList = Schemas["VulnerabilityList"];
export type DismissRequest = Schemas["DismissRequest"];
export type RetryRequest = Schemas["RetryRequest"];

export type DependencyFilters = Omit<QueryOf<"listDependencies">, "cursor" | "limit">;
export type PullFilters = Omit<QueryOf<"listPulls">, "cursor" | "limit">;
export type VulnerabilityFilters = Omit<QueryOf<"listVulnerabilities">, "cursor" | "limit">;
export type StepFilters = Omit<QueryOf<"listJobSteps">, "cursor" | "limit">;
export type UsageQuery = QueryOf<"getUsage">;

export interface JobFilters {
  /** Jobs in one of these. */
  status?: JobStatus | readonly JobStatus[] | undefined;
  /** The full name of the repository. */
  repo?: string | undefined;
  agent?: string | undefined;
  ticket_id?: string | undefined;
  /** The job that the listed ones follow up on. */
  follows?: string | undefined;
  /** Jobs that have all of these labels. */
  labels?: Readonly<Record<string, string>> | undefined;
  /** Inclusive. */
  created_after?: string | Date | undefined;
  /** Exclusive. */
  created_before?: string | Date | undefined;
}

/** A page of a listing. */
export interface PageOptions {
  limit?: number | undefined;
  /** The `next_cursor` of the previous page. */
  cursor?: string | undefined;
}
