// A program in an empty project that has only the packed client: it must type-check and run.
import {
  AgentJobs,
  ApiError,
  type CreateJobRequest,
  type Job,
  type WebhookEvent,
  collect,
  verifyWebhook,
} from "@agentjobs/client";

const request: CreateJobRequest = {
  repo: "acme/shop",
  agent: "edit",
  config_override: { draft: false, priority: "high", my_agents_own_key: [1, 2] },
  labels: { team: "payments" },
};

// @ts-expect-error a job needs an agent
const incomplete: CreateJobRequest = { repo: "acme/shop" };
// @ts-expect-error priorities are a closed list
const urgent: CreateJobRequest = { ...request, config_override: { priority: "urgent" } };

function describe(job: Job): string {
  switch (job.status) {
    case "completed":
      return `completed ${job.pr_number satisfies number | null}`;
    case "failed":
      return `failed ${job.error?.code satisfies string | undefined}`;
    default:
      // A newer service may send other values.
      return job.status satisfies string;
  }
}

export async function receive(http: Request, secret: string): Promise<WebhookEvent> {
  return verifyWebhook(await http.arrayBuffer(), http.headers, secret);
}

const client = AgentJobs.fromEnvironment({ timeoutMs: 60_000 });
const { job_id } = await client.jobs.create(request);
const job = await client.jobs.wait(job_id, { timeoutMs: 600_000, signal: AbortSignal.timeout(600_000) });
const jobs: Job[] = await collect(client.jobs.list({ status: ["completed"] }), 5);
try {
  await client.jobs.followUp(job_id, { prompt: "" });
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  console.log(error.code, [incomplete, urgent].length);
}
console.log(describe(job), jobs.length > 0);
