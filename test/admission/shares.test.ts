import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Admission } from "../../src/admission/admission.ts";
import { tenantLimits } from "../../src/admission/tenant-limits.ts";
import type { Compiled } from "../../src/discover/discovery.ts";
import type { GuestProgram } from "../../src/executor/executor.ts";
import { strayLog } from "../../src/executor/guest-log.ts";
import { compilingInTurn } from "../../src/host/catalog/compile-in-turn.ts";
import { ProcessPlaces } from "../../src/host/serving/hosting.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { TokenBuckets } from "../../src/lib/token-buckets.ts";

describe("places for programs of others", () => {
  /** A process that is ended when nobody uses it. */
  const running = (usedAt: number, leave: () => void, inUse = false) => ({
    usedAt,
    rests: 0,
    rest() {
      if (inUse || this.rests > 0) return undefined;
      this.rests += 1;
      return Promise.resolve().then(leave);
    },
  });

  it("are enough, by default, for the first calls of fifty hosted servers at once", async () => {
    const places = new ProcessPlaces(
      () => tenantLimits(defaultLimits),
      () => [],
    );
    const taken = await Promise.all(Array.from({ length: 50 }, () => places.take("acme")));
    assert.equal(taken.length, 50);
  });

  it("C8 upstreamProcesses: the one that was idle longest makes room, and one in use never does", async () => {
    const all: ReturnType<typeof running>[] = [];
    const places = new ProcessPlaces(
      () => ({ upstreamProcesses: 2, processStartsPerMinute: 0 }),
      (tenant) => (tenant === "acme" ? all : []),
    );
    all.push(running(2, await places.take("acme")), running(1, await places.take("acme")));
    const leave = await places.take("acme");
    assert.deepEqual(
      all.map(({ rests }) => rests),
      [0, 1],
    );
    all.length = 0;
    all.push(running(3, leave, true));
    await assert.rejects(places.take("acme"), {
      code: "too_many_processes",
      message: /the tenant "acme" has 2 programs of others .* limit upstreamProcesses, .* try again in 1 s$/,
    });
    (await places.take("evil"))();
  });
});

describe("how often something may begin", () => {
  it("C8 is a burst after a rest, then an even pace, for each tenant", () => {
    const buckets = new TokenBuckets((tenant) => ({ perMinute: tenant === "free" ? 0 : 60, burst: 2 }));
    assert.deepEqual(
      [0, 0, 0, 400].map((now) => buckets.take("acme", now)),
      [0, 0, 1_000, 600],
    );
    assert.equal(buckets.take("evil", 400), 0);
    assert.equal(buckets.take("acme", 1_000), 0);
    assert.equal(buckets.take("acme", 1_000), 1_000);
    for (let time = 0; time < 100; time++) assert.equal(buckets.take("free", 0), 0);
  });

  it("C8 processStartsPerMinute: programs of others are started so often, and whoever comes too soon hears when", async () => {
    const places = new ProcessPlaces(
      () => ({ upstreamProcesses: 2, processStartsPerMinute: 1 }),
      () => [],
    );
    for (let turn = 0; turn < 10; turn++) (await places.take("acme"))();
    await assert.rejects(places.take("acme"), {
      code: "too_many_processes",
      message: /may start 1 programs of others a minute, which is its limit processStartsPerMinute; try again in 60 s$/,
    });
    (await places.take("evil"))();
  });
});

describe("compiling in turn", () => {
  const never = async (): Promise<Compiled> => assert.fail("nothing takes long");

  it("C8 has tenants that wait take turns, whoever saved more, and goes on after what fails", async () => {
    const order: string[] = [];
    const compile = compilingInTurn(async ({ entry }) => {
      order.push(entry);
      if (entry === "acme 1") throw new Error("the compiler failed");
      return { problems: [] } as unknown as Compiled;
    }, never);
    const save = (tenant: string, number: number) =>
      compile({ language: "shell", server: "any", entry: `${tenant} ${number}`, files: {} }, tenant);
    const saved = [save("evil", 1), save("evil", 2), save("evil", 3), save("acme", 1), save("acme", 2)];
    await Promise.allSettled(saved);
    assert.deepEqual(order, ["evil 1", "evil 2", "acme 1", "evil 3", "acme 2"]);
  });

  it("C8 compiles nothing for whoever has left before its turn", async () => {
    const order: string[] = [];
    const compile = compilingInTurn(async ({ entry }) => {
      order.push(entry);
      return { problems: [] } as unknown as Compiled;
    }, never);
    const review = (entry: string, signal?: AbortSignal) =>
      compile({ language: "shell", server: "any", entry, files: {} }, "acme", signal);
    const client = new AbortController();
    const waiting = [review("first"), review("left", client.signal), review("stays")];
    client.abort();
    await assert.rejects(waiting[1]!, { code: "cancelled" });
    await assert.rejects(review("gone", client.signal), { code: "cancelled" });
    await Promise.all([waiting[0], waiting[2]]);
    assert.deepEqual(order, ["first", "stays"]);
  });

  it("C8 compiles what takes long again where none but its like wait for it", async () => {
    const ended: string[] = [];
    const problem = (code: string): Compiled => ({ problems: [{ code }] }) as unknown as Compiled;
    let goOn!: () => void;
    const isFree = new Promise<void>((resolve) => (goOn = resolve));
    const compile = compilingInTurn(
      async ({ entry }) => problem(entry === "heavy" ? "compiler-timeout" : "fine"),
      async () => isFree.then(() => problem("fine, later")),
    );
    const save = async (tenant: string, entry: string): Promise<void> => {
      const { problems } = await compile({ language: "shell", server: "any", entry, files: {} }, tenant);
      ended.push(`${tenant}: ${problems[0]!.code}`);
    };
    const heavy = save("evil", "heavy");
    await Promise.all([save("acme", "light"), save("acme", "light")]);
    const next = save("evil", "light");
    await save("acme", "light");
    goOn();
    await Promise.all([heavy, next]);
    assert.deepEqual(ended.slice(0, 3), ["acme: fine", "acme: fine", "acme: fine"]);
    assert.deepEqual(ended.slice(3), ["evil: fine, later", "evil: fine, later"]);
  });
});

describe("lines of guests that belong to no call", () => {
  it("C8 get into the log cut, and so often for each tenant, which says how many were left out", () => {
    const written: { tenant: string; line: { message: string }; leftOut?: number }[] = [];
    const ignored = (): void => {};
    const info = (data: object): void => void written.push(data as (typeof written)[number]);
    const log = strayLog({ strayLogLinesPerMinutePerTenant: 60_000 }, { debug: ignored, info, warn: ignored });
    const say = (tenant: string, message: string): void =>
      log({ tenant, bundle: "b" } as unknown as GuestProgram, { level: "info", message });
    say("acme", "x".repeat(1_000_000));
    assert.ok(written[0]!.line.message.length < 5_000);
    for (let line = 0; line < 20_000; line++) say("evil", "again");
    const ofEvil = written.filter(({ tenant }) => tenant === "evil");
    assert.ok(ofEvil.length >= 1_000 && ofEvil.length < 10_000, `${ofEvil.length}`);
    say("acme", "short");
    assert.deepEqual([written.at(-1)!.tenant, written.at(-1)!.leftOut], ["acme", undefined]);
  });
});

describe("streams that stand", () => {
  it("C8 streams and principalStreams: each is counted, to its tenant and to whose it is, until it ends", () => {
    const limits = { ...tenantLimits(defaultLimits), streams: 2, principalStreams: 1 };
    const admission = new Admission(() => limits);
    const person = { id: "ada", tenant: "acme" } as Parameters<Admission["enterAs"]>[0];
    const leave = admission.enterStream("acme", person);
    assert.throws(
      () => admission.enterStream("acme", person),
      /this token of the tenant "acme" has 1 streams under way/,
    );
    const leaveOther = admission.enterStream("acme", undefined);
    assert.throws(() => admission.enterStream("acme", undefined), /the tenant "acme" has 2 streams under way/);
    leaveOther();
    leave();
    admission.enterStream("acme", person);
  });
});
