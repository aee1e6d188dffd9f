import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { processTree } from "../../src/processes/process-tree.ts";
import { apiOf, type Api } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { statOf } from "../support/processes.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;
const EAT = `/** Takes memory without end. */
export function eat(): never { const all: number[][] = []; for (;;) all.push(new Array(100_000).fill(1)); }
`;
const BURN = `/** Never ends. */\nexport function burn(): never { for (;;); }\n`;
const FILL = `#!/bin/sh\n# Fills the disk.\ndd if=/dev/zero of=/tmp/filled bs=1M count=4096 2>&1 && echo filled\n`;
const KEEP = `#!/bin/sh\n# Keeps a megabyte.\ndd if=/dev/zero of=/tmp/kept bs=1M count=1 2>/dev/null && wc -c < /tmp/kept\n`;
const FORK = `#!/bin/sh\n# Forks without end.\nbomb() { bomb | bomb & }; bomb; sleep 2; echo forked\n`;

/** Each resource that a tenant can take too much of, while another tenant goes on with its work. */
describe("a tenant that takes all that it can get harms nobody:", () => {
  const env = { BERTH_CALL_MS: "8000" };
  const berth = berthInSuite({ texts: { "say.ts": SAY }, env });
  before(async () => {
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "evil", {
        servers: { say: SAY, eat: EAT, burn: BURN, fill: FILL, fork: FORK },
        limits: { guestProcesses: 3, scriptProcesses: 2, storedBytes: 20_000, calls: 8 },
      });
      // It saves as often as it can while others attack.
      await addTenant(store, "acme", { servers: { say: SAY, keep: KEEP }, limits: { savesPerMinute: 0 } });
    });
    for (const server of ["say", "keep"]) await call(at("acme", server), "none");
  });

  const at = (tenant: string, server: string): string => `${berth.url}/t/${tenant}/mcp/${server}`;
  const ask = async (tenant: string, server: string, tool: string): Promise<string> => {
    const { content, error } = await call(at(tenant, server), tool);
    return content?.[0]?.text ?? error.message;
  };

  /** Repeats the same attempt, `width` at once, until `work` is done; `work` sees the result of each. */
  async function meanwhile<T>(width: number, attempt: () => Promise<T>, work: (told: readonly T[]) => Promise<void>) {
    const told: T[] = [];
    const over = new AbortController();
    const attacker = async (): Promise<void> => {
      while (!over.signal.aborted) told.push(await attempt());
    };
    // Attempts in progress end by themselves.
    for (let count = 0; count < width; count++) attacker().catch(() => {});
    await work(told).finally(() => over.abort());
  }

  /** Calls of the other tenant, one after the other, all successful: at least a given number, and until `isEnough`. */
  const saysHello = async () => assert.equal(await ask("acme", "say", "say"), "hello");
  async function goesOn(isEnough: () => boolean, check: () => Promise<void> = saysHello) {
    const end = performance.now() + 120_000;
    for (let count = 0; count < 20 || !isEnough(); count++) {
      assert.ok(performance.now() < end, "the attack came to nothing in two minutes");
      await check();
    }
  }

  async function saved(api: Api, text: string): Promise<void> {
    const { status, body } = await api.put("/variables/plan", text);
    assert.ok([200, 201].includes(status), `${status} ${JSON.stringify(body)}`);
  }

  it("a memory bomb ends its own guest, and calls of others are answered meanwhile (C8)", async () => {
    const eat = () => ask("evil", "eat", "eat");
    await meanwhile(2, eat, (told) => goesOn(() => told.length >= 2));
    assert.equal(await ask("evil", "say", "say"), "hello");
  });

  it("guests that burn processors give way, and calls of others are answered meanwhile (C8)", async () => {
    const nicenesses = (): number[] => processTree(process.pid).flatMap((pid) => statOf(pid)?.niceness ?? []);
    const burn = () => ask("evil", "burn", "burn");
    await meanwhile(4, burn, () => goesOn(() => nicenesses().includes(19)));
    assert.equal(await ask("evil", "say", "say"), "hello");
  });

  it("scripts that fill disks and fork without end have their own, and scripts and saves of others work meanwhile (C8)", async () => {
    const api = apiOf({ url: `${berth.url}/t/acme` });
    let saves = 0;
    const check = async (): Promise<void> => {
      assert.equal((await ask("acme", "keep", "keep")).trim(), "1048576");
      await saved(api, `plan ${++saves}`);
    };
    const tools = ["fill", "fork"];
    let turn = 0;
    const attempt = async (): Promise<[string, string]> => {
      const tool = tools[++turn % tools.length]!;
      return [tool, await ask("evil", tool, tool)];
    };
    await meanwhile(4, attempt, async (told) => {
      await goesOn(() => tools.every((tool) => told.some(([name]) => name === tool)), check);
      for (const [, text] of told) assert.doesNotMatch(text, /^filled/);
    });
  });

  it("content beyond what it may store is refused, and others save meanwhile (C8)", async () => {
    const [evil, acme] = ["evil", "acme"].map((name) => apiOf({ url: `${berth.url}/t/${name}` }));
    let number = 0;
    const bomb = async (): Promise<number> =>
      (await evil!.put(`/variables/bomb-${++number}`, `${number}`.padEnd(50_000, "x"))).status;
    await meanwhile(4, bomb, async (told) => {
      let saves = 0;
      const isFull = () => told.filter((status) => status === 507).length >= 20;
      await goesOn(isFull, () => saved(acme!, `notes ${++saves}`));
      // On a fast machine it is also told that it saves too often.
      assert.deepEqual(new Set(told.filter((status) => status !== 429)), new Set([507]));
    });
  });
});
