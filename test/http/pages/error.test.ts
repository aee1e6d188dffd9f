import assert from "node:assert/strict";
import { it } from "node:test";
import { startTestBerth } from "../../support/berth.ts";

it("reports too many requests to browsers as a page, and to programs as JSON", async (t) => {
  const env = { BERTH_REQUESTS_PER_SECOND_PER_TENANT: "1", BERTH_REQUEST_BURST_PER_TENANT: "1" };
  const berth = await startTestBerth({ texts: {}, env });
  t.after(() => berth.close());
  const refused = async (accept: string): Promise<Response> => {
    for (;;) {
      const response = await fetch(`${berth.url}/mcp`, { headers: { Accept: accept } });
      if (response.status === 429) return response;
      await response.text();
    }
  };
  const page = await refused("text/html");
  assert.match(page.headers.get("retry-after")!, /^\d+$/);
  assert.match(
    await page.text(),
    /<h1>Too many requests: the tenant &quot;default&quot; is limited to 1 requests per second/,
  );
  for (const accept of ["*/*", "application/json", "application/json, text/event-stream"]) {
    const response = await refused(accept);
    assert.match(response.headers.get("content-type")!, /^application\/json/, accept);
    assert.match(((await response.json()) as { error: { message: string } }).error.message, /^Too many requests/);
  }
});
