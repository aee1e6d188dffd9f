/**
 * Searches and reads GitHub.
 *
 * @secret GITHUB_TOKEN a token of GitHub, which its environment holds
 * @network api.github.com
 */

import { Octokit } from "@octokit/rest";

/** Set by the entry: `"env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}" }`; GITHUB_API_URL is for servers of one's own. */
const { GITHUB_TOKEN: auth, GITHUB_API_URL: baseUrl } = process.env;
const github = new Octokit({ userAgent: "berth-example", ...(auth && { auth }), ...(baseUrl && { baseUrl }) });

/** @minimum 1 @maximum 100 */
type Count = number;

/**
 * Searches for repositories, the most starred first.
 * @param query - Words and qualifiers, such as `mcp language:typescript`.
 * @param count - The most to give.
 * @readOnly
 * @openWorld
 */
export async function searchRepositories(query: string, count: Count = 10) {
  const { data } = await github.rest.search.repos({ q: query, sort: "stars", per_page: count });
  return data.items.map(({ full_name, description, stargazers_count, html_url }) => ({
    repository: full_name,
    description: description ?? "",
    stars: stargazers_count,
    url: html_url,
  }));
}

/**
 * Searches for issues and pull requests.
 * @param query - Words and qualifiers, such as `repo:nodejs/node is:open memory`.
 * @param count - The most to give.
 * @readOnly
 * @openWorld
 */
export async function searchIssues(query: string, count: Count = 10) {
  const { data } = await github.rest.search.issuesAndPullRequests({ q: query, per_page: count });
  return data.items.map(({ number, title, state, html_url, pull_request }) => ({
    number,
    title,
    state,
    kind: pull_request ? ("pull request" as const) : ("issue" as const),
    url: html_url,
  }));
}

/**
 * Reads an issue or a pull request with its first comments.
 * @param repository - As `nodejs/node`.
 * @readOnly
 * @openWorld
 */
export async function readIssue(repository: string, number: number) {
  const where = { ...partsOf(repository), issue_number: number };
  const [{ data: issue }, { data: comments }] = await Promise.all([
    github.rest.issues.get(where),
    github.rest.issues.listComments({ ...where, per_page: 50 }),
  ]);
  return {
    title: issue.title,
    state: issue.state,
    author: issue.user?.login ?? "nobody",
    body: issue.body ?? "",
    comments: comments.map(({ user, body }) => ({ author: user?.login ?? "nobody", body: body ?? "" })),
  };
}

/**
 * Reads a file, or lists a folder, of a repository.
 * @param repository - As `nodejs/node`.
 * @param path - As `lib/fs.js`; empty for its root.
 * @param ref - A branch, a tag or a commit; without it the default branch.
 * @readOnly
 * @openWorld
 */
export async function readFile(repository: string, path = "", ref?: string): Promise<string> {
  const { data } = await github.rest.repos.getContent({ ...partsOf(repository), path, ...(ref && { ref }) });
  if (Array.isArray(data)) return data.map(({ name, type }) => (type === "dir" ? `${name}/` : name)).join("\n");
  if (data.type !== "file" || !("content" in data)) throw new Error(`${path} is a ${data.type}, and not a file`);
  return Buffer.from(data.content, "base64").toString();
}

function partsOf(repository: string): { owner: string; repo: string } {
  const [owner, repo, more] = repository.split("/");
  if (owner && repo && more === undefined) return { owner, repo };
  throw new Error(`"${repository}" is not a repository: write owner/name, such as nodejs/node`);
}
