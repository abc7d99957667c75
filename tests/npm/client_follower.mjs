// Follows the job of the first argument with the TypeScript client. Prints a line per piece of the
// log, and at the end the statuses and the log as JSON.
import { AgentJobs } from "@agentjobs/client";

const client = AgentJobs.fromEnvironment();
const [jobId] = process.argv.slice(2);

async function watch() {
  const statuses = [];
  for await (const job of client.jobs.watch(jobId)) statuses.push(job.status);
  return statuses;
}

const watching = watch();
let log = "";
for await (const text of client.jobs.logs(jobId)) {
  log += text;
  console.log("received");
}
console.log(JSON.stringify({ statuses: await watching, log }));
