import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createPrincipal } from "../../../src/access/principal.ts";
import { Activity } from "../../../src/host/journal/activity.ts";
import { CallNotes, Observers, type ObservedCall } from "../../../src/host/journal/journal.ts";

const tool = { tenant: "default", server: "echo", release: "bafyrelease", tool: "say" };
const principal = createPrincipal({ id: "ada", tenant: "default" }, []);
const result = { content: [{ type: "text", text: "hello" }] };

describe("calls that are observed", () => {
  it("an observer hears what was called, how it ended, by whom, what was said and how long it took", () => {
    const heard: ObservedCall[] = [];
    const observers = new Observers();
    observers.add((call) => heard.push(call));
    const notes = new CallNotes(tool, new Activity(), observers);
    const beganAt = performance.now() - 5;
    notes.ended("ok", beganAt, { text: "hello" }, { principal, trace: { requestId: "r1" } }, result, 1);

    const [{ ms, ...call }] = heard as [ObservedCall];
    assert.ok(ms >= 5);
    assert.deepEqual(call, {
      tool,
      outcome: "ok",
      beganAt,
      retries: 1,
      principal,
      trace: { requestId: "r1" },
      args: { text: "hello" },
      result,
      size: 5,
      rejection: undefined,
      failure: undefined,
    });
  });

  it("an observer that fails keeps neither the call nor other observers from going on", () => {
    const faults: unknown[] = [];
    const heard: ObservedCall[] = [];
    const observers = new Observers((error) => faults.push(error));
    const fault = new Error("the disk is full");
    observers.add(() => {
      throw fault;
    });
    observers.add((call) => heard.push(call));
    new CallNotes(tool, new Activity(), observers).ended("ok", performance.now(), {}, {}, result);

    assert.deepEqual(faults, [fault]);
    assert.equal(heard.length, 1);
  });
});
