// Hints of the server are written for every client, and many name a command. The page replaces such a hint with one
// that says what to do on the page.

const HINTS: Record<string, string> = {
  agent_not_found: "See the Agents page for the list.",
  agent_paused: "Resume it in the menu of its page.",
  batch_not_found: "See the Batches page for yours.",
  file_in_use: "Wait for the batch, or cancel it.",
  file_not_found: "See the Files page for yours.",
  file_quota_reached: "Delete some on the Files page.",
  too_many_files: "Delete some on the Files page.",
  backend_not_found: "See the Backends page for the list.",
  mcp_server_not_found: "See the page of MCP servers for the list.",
  job_not_found: "See the Jobs page for your jobs. An admin sees those of everybody.",
  model_not_found: "See the Models page for the list.",
  no_agent_worker: "Ask an admin to start an agent worker. The Nodes page has the command.",
  no_eligible_nodes: "See the Nodes page for the reasons.",
  node_not_found: "See the Nodes page for the list.",
  private_address: "Let an admin declare the server on the page of MCP servers.",
  node_pending: "Approve the node on the Nodes page.",
  not_allowed: "Request a key with a wider scope from an admin.",
  nothing_to_pause: "Cancel the operation instead.",
  run_not_found: "See the Runs page for your runs. An admin sees those of everybody.",
  run_open: "Cancel the run first.",
  secret_in_address: "Store it on the page of secrets, and write secret:NAME as the token or in a header.",
  secret_in_clear: "Store it on the page of secrets, and write a reference to it as the value.",
  secret_not_found: "Store it on the page of secrets.",
  skill_file_not_found: "Its page lists its files.",
  skill_not_found: "See the Skills page for yours and the shared ones.",
  skill_read_only: "Commit the change in the repository, then sync it on the page of repositories.",
  skill_repo_disabled: "Enable the repository first.",
  skill_repo_exists: "Sync it again, or name another branch.",
  skill_repo_not_found: "See the page of repositories for yours.",
  too_many_agents: "Delete one first.",
  too_many_skill_repos: "Delete one first.",
  too_many_skills: "Delete some first.",
  cluster_secret_refused: "Store the value as a secret of your own, and write secret:NAME.",
  task_disabled: "Enable the task first.",
  task_not_found: "See the Tasks page for your tasks. An admin sees those of everybody.",
  too_many_secrets: "Delete one first.",
  operation_not_found: "See the Operations page for all stored operations.",
};
/** `corral nodes list`, with or without backticks, or a call of the API. */
const COMMAND = /(^|[\s`:])(corral [a-z]+|(GET|POST|PUT|DELETE) \/)/;

export function pageHint(code: string, hint: string | null): string | null {
  if (hint === null || !COMMAND.test(hint)) return hint;
  return HINTS[code] ?? null;
}
