import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { beginTrace, withMeta } from "../../src/lib/trace.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const CONTEXT = {
  traceparent: TRACEPARENT,
  tracestate: "vendor=t61rcWkgMzE,x@y=1",
  baggage: "user=ada,plan=a%20b;ttl=1",
};

describe("what is known of a request's trace", () => {
  it("a trace context that is not well-formed counts as not said, each part by itself", () => {
    const read = (carrier: Record<string, unknown>): unknown => beginTrace(undefined, carrier).context;
    assert.deepEqual(read(CONTEXT), CONTEXT);
    for (const traceparent of [
      "",
      TRACEPARENT.toUpperCase(),
      TRACEPARENT.slice(1),
      TRACEPARENT.replace(/^00/, "ff"),
      `${TRACEPARENT}-more`,
      TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32)),
      TRACEPARENT.replace("b7ad6b7169203331", "0".repeat(16)),
      `${TRACEPARENT}\n`,
      7,
    ]) {
      assert.equal(read({ traceparent, tracestate: "a=1" }), undefined, String(traceparent));
    }
    const later = `01${TRACEPARENT.slice(2)}-more`;
    assert.deepEqual(read({ traceparent: later }), { traceparent: later });
    for (const tracestate of ["no value", "A=1", `a=${"x".repeat(600)}`, "a=1\r\nb", 7]) {
      assert.deepEqual(
        read({ traceparent: TRACEPARENT, tracestate }),
        { traceparent: TRACEPARENT },
        String(tracestate),
      );
    }
    assert.deepEqual(read({ baggage: "a=1" }), { baggage: "a=1" });
    for (const baggage of ["a", 'a="1"', "a=1\nb=2", `a=${"x".repeat(8192)}`, {}]) {
      assert.equal(read({ baggage }), undefined, JSON.stringify(baggage));
    }
  });

  it("what the message says of its trace goes before what its headers say", () => {
    const trace = beginTrace("r1", { traceparent: TRACEPARENT });
    const other = TRACEPARENT.replace("b7ad", "c7ad");
    assert.deepEqual(withMeta(trace, { traceparent: other }), { requestId: "r1", context: { traceparent: other } });
    assert.equal(withMeta(trace, { traceparent: "no" }), trace);
  });
});
