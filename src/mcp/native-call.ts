import type { CallResult, Catalog, InputRequired, Tool } from "../host/catalog.ts";
import { textsOf } from "../host/content.ts";
import { jsonOf } from "../host/long-result.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, JsonText, type JsonObject } from "../lib/json.ts";
import { NATIVE_META, type NativeEvent } from "../native/events.ts";
import { callerContextOf } from "../outcome/context.ts";
import { readInputResponses } from "./modern/input-responses.ts";
import { relayLog } from "./methods/log.ts";
import type { Method, MethodCall } from "./protocol.ts";

/** A native caller can answer any question, by calling again. */
const client = { capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} } };

/** One tool as a method: the same call as `tools/call`, shown as its events and its final result. */
export function callNatively(catalog: Catalog, tool: Tool): Method {
  return async (call) => {
    const { [NATIVE_META]: meta, ...params } = call.params;
    const { arguments: long } = params;
    const args = long instanceof JsonText ? long : (params as JsonObject);
    const answers =
      isObject(meta) && meta["inputResponses"] !== undefined ? readInputResponses(meta["inputResponses"]) : undefined;
    const context = callerContextOf(meta);
    const { principal, trace, events, signal } = call;
    if (!events) {
      const options = { principal, trace, signal, answers, client, context };
      return jsonOf(await tool.call(args, options));
    }

    const write = eventWriter(call);
    const tell = (event: NativeEvent): void | Promise<void> => events.send(write(event));
    void tell({ type: "start", server: catalog.server, tool: tool.contract.name, release: catalog.release });
    try {
      const outcome = await tool.call(args, {
        principal,
        signal,
        answers,
        client,
        context,
        trace,
        onProgress: (data) => tell({ type: "data", data }),
        onLog: relayLog(call, (line) => write({ type: "log", ...line })),
        onCloseStream: events.release && (() => events.release?.()),
      });
      void tell(lastEvent(outcome));
      return jsonOf(outcome);
    } catch (error) {
      const { message } = error instanceof BerthError ? error : new BerthError("internal");
      void tell({ type: "error", message });
      throw error;
    }
  };
}

function eventWriter({ id, method }: MethodCall): (event: NativeEvent) => string {
  const head = `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":{"subscription":${JSON.stringify(id)},"result":`;
  return (event) => `${head}${JSON.stringify(event)}}}`;
}

function lastEvent(outcome: CallResult | InputRequired): NativeEvent {
  if ("inputRequests" in outcome) return { type: "input_required" };
  if (!outcome.isError) return { type: "complete" };
  return { type: "error", message: textsOf(outcome) };
}
