import type { CallOptions, InputRequests, InputRequired } from "../../host/catalog/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import { joinAnswers } from "../../outcome/answers.ts";
import { callerContextOf } from "../../outcome/context.ts";
import type { Text } from "../../lib/long-text.ts";
import type { MethodCall } from "../protocol.ts";
import { logReporter } from "./log.ts";
import { progressReporter } from "./progress.ts";

/** The rounds of one request, for a function that never stops asking. */
const ROUNDS_MAX = 20;

/**
 * Runs guest code until it has all the answers that it asks for. `run` starts from the top each time; `write` turns its
 * outcome into the text of a result.
 */
export async function inRounds<Outcome extends object>(
  call: MethodCall,
  run: (options: CallOptions) => Promise<Outcome | InputRequired>,
  write: (outcome: Outcome) => Text,
): Promise<Text> {
  const { codec, principal, trace, events, signal } = call;
  const onProgress = events && progressReporter(call.params, events);
  const onLog = logReporter(call);
  const onCloseStream = events?.release && (() => events.release?.());
  const client = { capabilities: call.client.capabilities };
  const context = callerContextOf(call.params["_meta"]);
  let answers = codec.answersOf(call);
  for (let round = 1; round <= ROUNDS_MAX; round++) {
    const outcome = await run({
      principal,
      trace,
      signal,
      onProgress,
      onLog,
      onCloseStream,
      answers,
      client,
      context,
    });
    if (!asks(outcome)) return write(outcome as Outcome);
    const asked = await codec.ask(call, outcome.inputRequests, answers ?? {});
    if ("result" in asked) return asked.result;
    answers = joinAnswers(answers, asked.answers);
  }
  throw new BerthError("guest_failed", `it asked for input ${ROUNDS_MAX} times in one request`);
}

function asks(outcome: object): outcome is { inputRequests: InputRequests } {
  return "inputRequests" in outcome;
}
