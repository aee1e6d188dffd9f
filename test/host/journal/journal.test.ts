import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pino } from "pino";
import { createPrincipal } from "../../../src/access/principal.ts";
import { Journal } from "../../../src/host/journal/journal.ts";
import type { CallRecord } from "../../../src/host/journal/record.ts";

const released = { tenant: "default", server: "echo", release: "bafyrelease" };
const contract = { name: "say", inputSchema: { type: "object" } };
const principal = createPrincipal({ id: "ada", tenant: "default" }, []);
const result = { content: [{ type: "text", text: "hello" }] };

describe("the journal", () => {
  it("gives observers one record of a finished call: the tool, the outcome, the caller, the contents and the time", () => {
    const records: CallRecord[] = [];
    const journal = new Journal();
    journal.addObserver((record) => records.push(record));
    const beganAt = performance.now() - 5;
    const call = { args: { text: "hello" }, options: { principal, trace: { requestId: "r1" } }, beganAt };
    journal.release(released).tool(contract).record(call, { outcome: "ok", result }, 1);

    const [{ ms, ...record }] = records as [CallRecord];
    assert.ok(ms >= 5);
    assert.deepEqual(record, {
      tool: { ...released, tool: "say" },
      outcome: "ok",
      beganAt,
      retries: 1,
      principal,
      trace: { requestId: "r1" },
      args: { text: "hello" },
      result,
      size: 5,
      asked: undefined,
      rejection: undefined,
      failure: undefined,
    });
  });

  it("goes on when an observer fails, and logs the error", () => {
    const records: CallRecord[] = [];
    const lines: string[] = [];
    const journal = new Journal({ log: pino({ level: "info" }, { write: (line: string) => void lines.push(line) }) });
    journal.addObserver(() => {
      throw new Error("the disk is full");
    });
    journal.addObserver((record) => records.push(record));
    const call = { args: {}, options: {}, beganAt: performance.now() };
    journal.release(released).tool(contract).record(call, { outcome: "ok", result });

    assert.deepEqual([records.length, lines.length], [1, 1]);
    assert.match(lines[0]!, /the disk is full/);
  });
});
