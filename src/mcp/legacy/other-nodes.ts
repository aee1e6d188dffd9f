import type { Cluster } from "../../cluster/cluster.ts";
import type { Errands } from "../../cluster/errands.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { RequestId } from "../json-rpc.ts";
import { ANSWER_BYTES } from "../question-length.ts";
import { nodeOfQuestion, type ClientAnswer, type Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";

/**
 * The parts of a session that one node alone has in hand: calls under way, and questions that wait. Their client may
 * send its cancellations and answers to any node, which passes them on. Whose session it is, both nodes check.
 */
export function listenToNodes({ cluster, errands, sessions }: LegacyNodes): void {
  const find = ({ tenant, session: id, server, principal }: SessionOfLetter): Session | undefined => {
    const session = sessions.find(tenant, id);
    const isTheirs = session?.server === server && session.principalId === (principal ?? undefined);
    return isTheirs ? session : undefined;
  };
  cluster.on(CANCEL, (body) => {
    const letter = body as unknown as SessionOfLetter & { readonly request: RequestId };
    find(letter)?.calls.get(letter.request)?.abort();
  });
  errands.on(ANSWER, ({ tenant, about, text }) => {
    const { question, units, ...whose } = about as unknown as AnswerFacts;
    const answer = units === null ? { error: text } : { result: JSON.parse(text) as JsonObject, units };
    if (!find({ ...whose, tenant })?.questions.answer(question, answer)) throw nobodyWaits();
  });
}

/** Cancels a call that this node does not carry out, where another does. */
export function cancelElsewhere({ cluster }: LegacyNodes, session: Session, request: RequestId): void {
  cluster.tell(CANCEL, { tenant: session.tenant, ...letterOf(session), request });
}

/** Has the node take an answer whose question it asked. Rejects as if none waited when that node is gone. */
export async function answerElsewhere(
  { cluster, errands }: LegacyNodes,
  session: Session,
  question: RequestId,
  answer: ClientAnswer,
): Promise<void> {
  const node = nodeOfQuestion(question);
  if (node === undefined || node === cluster.id) throw nobodyWaits();
  const [units, text] =
    "error" in answer
      ? [null, answer.error]
      : // Where it is refused for its length, its content is not needed.
        [answer.units, answer.units > ANSWER_BYTES ? "{}" : JSON.stringify(answer.result)];
  const about = { ...letterOf(session), question, units };
  if (!(await errands.send(node, ANSWER, { tenant: session.tenant, about, text }))) throw nobodyWaits();
}

export function nobodyWaits(): BerthError {
  return new BerthError(
    "invalid_request",
    "nobody waits for this response: its request has ended, or did not come from this server",
  );
}

interface LegacyNodes {
  readonly cluster: Pick<Cluster, "id" | "on" | "tell">;
  readonly errands: Pick<Errands, "on" | "send">;
  readonly sessions: Sessions;
}

const CANCEL = "cancel";
const ANSWER = "answer";

/** A session as its client has proved it to the node that writes. */
type SessionOfLetter = ReturnType<typeof letterOf> & { readonly tenant: string };

interface AnswerFacts extends Omit<SessionOfLetter, "tenant"> {
  readonly question: RequestId;
  /** Null for an error. */
  readonly units: number | null;
}

function letterOf({ server, principalId, facts }: Session) {
  return { session: facts.id, server, principal: principalId ?? null };
}
