import { Octokit } from "@octokit/rest";

/** Reads an issue. */
export async function issue(at: string): Promise<{ url: string; title: string }> {
  const octokit = new Octokit({ auth: "none", baseUrl: `http://${at}` });
  const where = { owner: "octokit", repo: "rest.js", issue_number: 1 };
  const { url } = new Octokit().issues.get.endpoint(where);
  const { data } = await octokit.rest.issues.get(where);
  return { url, title: data.title };
}
