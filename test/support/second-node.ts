import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { Agent, setGlobalDispatcher } from "undici";
import { startBerth } from "../../src/compose/main.ts";
import type { Config } from "../../src/config.ts";
import { createLog } from "../../src/lib/log.ts";
import { changeFixed } from "../../src/limits/fixed.ts";
import { readTestConfig } from "./config.ts";
import { loweredLimits } from "./lowered-limits.ts";

/**
 * A second process that serves from the data folder of a test's Berth, and a balancer before both that gives each connection
 * to the other one than the connection before. It passes bytes on as they are, and `fetch` keeps no connection, so any test
 * of one Berth becomes one of two nodes: `npm test -- --nodes 2`.
 */
export interface SecondNode {
  /** The address of the balancer. */
  readonly url: string;
  close(): Promise<void>;
}

interface Started {
  readonly env: Record<string, string>;
  readonly config: Partial<Config>;
}

/** Where the nodes listen, at the port of the balancer: clients see one address, and so does each of the nodes. */
const HOSTS = ["127.0.0.2", "127.0.0.3"] as const;
export const [FIRST_HOST] = HOSTS;

const file = fileURLToPath(import.meta.url);

export async function startSecondNode(first: string, { env, config }: Started): Promise<SecondNode> {
  const child = fork(file, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const own = { BERTH_PORT: new URL(first).port, BERTH_HOST: HOSTS[1] };
  child.send({ env: { ...env, ...own }, config } satisfies Started);
  const [said] = (await Promise.race([once(child, "message"), once(child, "exit")])) as [unknown];
  if (typeof said !== "string") throw new Error(`the second node ended with ${String(said)}`);
  setGlobalDispatcher(new Agent({ pipelining: 0 }));
  const { port } = new URL(first);
  let next = 0;
  const balancer = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const node = connect({ port: Number(port), host: HOSTS[next++ % 2]!, allowHalfOpen: true, noDelay: true });
    client.pipe(node).pipe(client);
    client.on("error", () => node.destroy()).on("close", () => node.destroy());
    node.on("error", () => client.destroy()).on("close", () => client.destroy());
  });
  balancer.listen(Number(port), "127.0.0.1");
  await once(balancer, "listening");
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      balancer.close();
      const ended = once(child, "exit");
      if (child.connected) child.disconnect();
      await ended;
    },
  };
}

if (process.argv[1] === file) {
  process.once("message", (message) => void serve(message as Started));
}

async function serve({ env, config }: Started): Promise<void> {
  changeFixed(loweredLimits(env));
  const berth = await startBerth(readTestConfig(env, config), createLog(env["BERTH_TEST_LOG"] ?? "silent"));
  process.once("disconnect", () => void berth.close());
  process.send!(berth.url);
}
