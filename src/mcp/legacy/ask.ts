import type { InputRequest, InputRequests } from "../../host/catalog.ts";
import { BerthError } from "../../errors.ts";
import type { JsonObject } from "../../json.ts";
import { notificationText, requestText } from "../json-rpc.ts";
import type { Asked, MethodCall } from "../protocol.ts";
import type { LegacyClient } from "./client.ts";
import { questionParams, whatLacks } from "./questions.ts";
import type { ClientAnswer, Session } from "./session.ts";

/**
 * Asks the client what guest code wants to know, by requests on the stream of the call. A client that cannot be
 * asked, or does not answer, makes the call fail, with the reason.
 */
export async function ask(
  call: MethodCall,
  inputRequests: InputRequests,
  given: JsonObject,
  answerMs: number,
): Promise<Asked> {
  const { peer } = call.client as LegacyClient;
  const open = Object.entries(inputRequests).filter(([key]) => given[key] === undefined);
  const reason = whyNot(call, peer, open);
  if (reason !== undefined || !peer) return failed(call, reason ?? "");
  const answers = await Promise.all(open.map(([, request]) => askOne(call, peer, request, answerMs)));
  const error = answers.find((answer) => "error" in answer);
  if (error) return failed(call, `the client did not answer: ${error.error}`);
  return {
    answers: Object.fromEntries(answers.map((answer, at) => [open[at]![0], (answer as { result: JsonObject }).result])),
  };
}

function whyNot(call: MethodCall, peer: Session | undefined, open: [string, InputRequest][]): string | undefined {
  if (open.length === 0) return "it asks again for what was answered";
  if (!peer) return "it asks the client, which is possible in a session only; initialize, and send Mcp-Session-Id";
  if (!call.events) return "it asks the client, which is possible on a stream only; accept text/event-stream";
  const lacking = new Set(open.flatMap(([, request]) => whatLacks(peer.facts, request) ?? []));
  return lacking.size > 0 ? `it needs a client that supports ${[...lacking].join(" and ")}` : undefined;
}

async function askOne(call: MethodCall, peer: Session, request: InputRequest, answerMs: number): Promise<ClientAnswer> {
  const { events, signal } = call;
  const params = questionParams(peer.facts, request);
  const question = peer.questions.ask((id) => {
    void events?.send(requestText(id, request.method, params), { lasting: true });
  }, answerMs);
  const giveUp = (): void => question.giveUp();
  signal?.addEventListener("abort", giveUp);
  if (signal?.aborted) giveUp();
  const answer = await question.answer;
  signal?.removeEventListener("abort", giveUp);
  if (answer) return answer;
  const reason = signal?.aborted ? "the call was cancelled" : `no answer came within ${answerMs} ms`;
  void events?.send(notificationText("notifications/cancelled", { requestId: question.id, reason }));
  return { error: reason };
}

/** What goes wrong inside a tool is a result; everything else has errors alone. */
function failed({ method, params }: MethodCall, reason: string): Asked {
  if (method !== "tools/call") throw new BerthError("guest_failed", reason);
  const text = `The tool "${String(params["name"])}" did not finish: ${reason}`;
  return { result: JSON.stringify({ content: [{ type: "text", text }], isError: true }) };
}
