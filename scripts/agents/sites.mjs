import { once } from "node:events";
import { createServer } from "node:http";

/** A stand-in on loopback for GitHub's API and for a page of the web. `host` is its address with its port. */
export async function openSites() {
  const server = createServer(({ url, headers }, response) => {
    const { pathname } = new URL(url, "http://localhost");
    if (pathname === "/bread") {
      const page = "<title>Bread</title><h1>Bread</h1><p>Flour, <b>water</b> and salt.</p>";
      return response.writeHead(200, { "Content-Type": "text/html" }).end(page);
    }
    const isKnown = headers.authorization === `token ${TOKEN}`;
    if (pathname !== "/search/repositories" || !isKnown) return response.writeHead(isKnown ? 404 : 401).end("{}");
    const repository = { full_name: "nodejs/node", description: "Node", stargazers_count: 7, html_url: "https://x/" };
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ items: [repository] }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { host: `127.0.0.1:${server.address().port}`, close: () => server.close() };
}

export const TOKEN = "the-token-of-npm-run-agents";
