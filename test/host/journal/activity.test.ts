import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Activities, HOUR_PARTS, type Activity } from "../../../src/host/journal/activity.ts";
import type { CallOutcome } from "../../../src/host/journal/record.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";

const MINUTE = 60_000;
/** The beginning of a part. */
const START = Math.ceil(Date.now() / (5 * MINUTE)) * 5 * MINUTE;

/** Notes a call that ended this long after `START`. */
function note(activity: Activity, afterMs: number, outcome: CallOutcome = "ok"): void {
  const tool = { tenant: "t", server: "s", release: "r", tool: "tool" };
  const beganAt = START + afterMs - performance.timeOrigin;
  const none = { principal: undefined, trace: undefined, result: undefined, asked: undefined, rejection: undefined };
  activity.record({ tool, outcome, beganAt, ms: 0, size: 0, retries: 0, args: {}, ...none, failure: undefined });
}

function seen(activity: Activity, afterMs: number): string | undefined {
  return activity
    .lastHour(START + afterMs)
    ?.map(({ calls, errors }) => `${calls}/${errors}`)
    .join(" ");
}

describe("the calls of the last hour", () => {
  it("are counted in twelve parts of five minutes, and those that were answered with an error apart", () => {
    const activity = new Activities().of("t", "s");
    for (const outcome of ["ok", "error", "invalid", "asked"] as const) note(activity, 0, outcome);
    note(activity, 12 * MINUTE);
    const nothing = Array.from({ length: HOUR_PARTS - 3 }, () => "0/0").join(" ");
    assert.equal(seen(activity, 12 * MINUTE), `${nothing} 4/2 0/0 1/0`);
    assert.equal(activity.latestAt, START + 12 * MINUTE);
  });

  it("are forgotten part by part, however long nobody calls", () => {
    const activity = new Activities().of("t", "s");
    note(activity, 0);
    note(activity, 6 * MINUTE);
    assert.match(seen(activity, 59 * MINUTE)!, /^1\/0 1\/0 0\/0/);
    assert.match(seen(activity, 61 * MINUTE)!, /^1\/0 0\/0/);
    assert.doesNotMatch(seen(activity, 24 * 60 * MINUTE)!, /1/);
    note(activity, 24 * 60 * MINUTE);
    assert.match(seen(activity, 24 * 60 * MINUTE)!, /^(0\/0 ){11}1\/0$/);
  });

  it("are counted of at most countedServers servers: the longest silent one is forgotten first", (t) => {
    t.after(lower({ countedServers: 2 }));
    const activities = new Activities();
    const [first, second, third] = [activities.of("t", "a"), activities.of("t", "b"), activities.of("t", "c")];
    note(first, 0);
    note(second, 0);
    note(first, 5 * MINUTE);
    note(third, 5 * MINUTE);
    const forgotten = [first, second, third].filter((each) => seen(each, 5 * MINUTE) === undefined);
    assert.deepEqual(forgotten, [second]);
  });

  it("are forgotten with their server", () => {
    const activities = new Activities();
    const gone = activities.of("t", "gone");
    note(gone, 0);
    activities.keepOnly("t", new Map());
    assert.equal(seen(gone, 0), undefined);
  });
});

it("the latest lines are retained for recentLinesServers servers: those of the longest silent one are forgotten first", (t) => {
  t.after(lower({ recentLines: 2, recentLinesServers: 2 }));
  const activities = new Activities();
  const say = (server: string, message: object | string): void =>
    activities.of("acme", server).addLine("say", { level: "info", message: message as string });
  const messages = (server: string): string[] => rows(activities.of("acme", server).lines(), "message");
  say("one", "first");
  say("two", { long: Array.from({ length: 100_000 }, (_, index) => index) });
  for (const message of ["second", "third"]) say("one", message);
  say("three", "first");
  assert.deepEqual(messages("two"), []);
  assert.deepEqual(messages("one"), ["third", "second"]);
  say("three", { a: [1, "two", null, {}], b: true });
  assert.deepEqual(messages("three"), ['{"a":[1,"two",null,{}],"b":true}', "first"]);
  activities.keepOnly("acme", new Map([["one", 1]]));
  activities.keepOnly("other", new Map());
  assert.deepEqual([messages("one").length, messages("three")], [2, []]);
});
