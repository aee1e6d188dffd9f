import { Octokit } from "@octokit/rest";

/** Reads an issue, which a function of the definition's own answers with. */
export async function issue(): Promise<{ url: string; title: string }> {
  const octokit = new Octokit({
    auth: "none",
    request: {
      fetch: async (url: string) =>
        new Response(JSON.stringify({ title: `from ${new URL(url).pathname}` }), {
          headers: { "content-type": "application/json" },
        }),
    },
  });
  const { url } = octokit.issues.get.endpoint({ owner: "octokit", repo: "rest.js", issue_number: 1 });
  const { data } = await octokit.rest.issues.get({ owner: "octokit", repo: "rest.js", issue_number: 1 });
  return { url, title: data.title };
}
