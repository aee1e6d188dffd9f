import { Headers, MockAgent, request } from "undici";

/** A request that a mock answers. */
export async function mocked(): Promise<{ status: number; body: unknown; header: string | null }> {
  const agent = new MockAgent();
  agent.disableNetConnect();
  agent
    .get("https://example.com")
    .intercept({ path: "/items" })
    .reply(200, { items: [1, 2] }, { headers: { "content-type": "application/json" } });
  const { statusCode, body } = await request("https://example.com/items", { dispatcher: agent });
  return { status: statusCode, body: await body.json(), header: new Headers({ "X-A": "b" }).get("x-a") };
}
