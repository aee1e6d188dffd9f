import type { Cluster } from "../../cluster/cluster.ts";
import type { NodeRequests } from "../../cluster/node-requests.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { RequestId } from "../json-rpc.ts";
import { ANSWER_BYTES } from "../question-limits.ts";
import { nodeOfQuestion, type ClientAnswer, type Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";

/**
 * Parts of a session that exist on one node only: calls in progress, and pending questions. Clients may send
 * cancellations and answers to any node, which forwards them. Both nodes check who owns the session.
 */
export function listenToNodes({ cluster, errands, sessions }: LegacyNodes): void {
  const find = ({ tenant, session: id, server, principal }: SessionAddress): Session | undefined => {
    const session = sessions.find(tenant, id);
    const isOwner = session?.server === server && session.principalId === (principal ?? undefined);
    return isOwner ? session : undefined;
  };
  cluster.on(CANCEL, (body) => {
    const message = body as unknown as SessionAddress & { readonly request: RequestId };
    find(message)?.calls.get(message.request)?.abort();
  });
  errands.on(ANSWER, ({ tenant, about, text }) => {
    const { question, units, ...address } = about as unknown as AnswerMessage;
    const answer = units === null ? { error: text } : { result: JSON.parse(text) as JsonObject, units };
    if (!find({ ...address, tenant })?.questions.answer(question, answer)) throw unexpectedResponse();
  });
}

export function cancelOnOtherNode({ cluster }: LegacyNodes, session: Session, request: RequestId): void {
  cluster.tell(CANCEL, { tenant: session.tenant, ...sessionAddress(session), request });
}

/** Forwards an answer to the node that asked. Rejects as for an unknown question when that node is gone. */
export async function answerOnOtherNode(
  { cluster, errands }: LegacyNodes,
  session: Session,
  question: RequestId,
  answer: ClientAnswer,
): Promise<void> {
  const node = nodeOfQuestion(question);
  if (node === undefined || node === cluster.id) throw unexpectedResponse();
  const [units, text] =
    "error" in answer
      ? [null, answer.error]
      : // The receiver rejects it for its length, without its content.
        [answer.units, answer.units > ANSWER_BYTES ? "{}" : JSON.stringify(answer.result)];
  const about = { ...sessionAddress(session), question, units };
  if (!(await errands.send(node, ANSWER, { tenant: session.tenant, about, text }))) throw unexpectedResponse();
}

export function unexpectedResponse(): BerthError {
  return new BerthError(
    "invalid_request",
    "no request is waiting for this response: it has ended, or this server did not send it",
  );
}

interface LegacyNodes {
  readonly cluster: Pick<Cluster, "id" | "on" | "tell">;
  readonly errands: Pick<NodeRequests, "on" | "send">;
  readonly sessions: Sessions;
}

const CANCEL = "cancel";
const ANSWER = "answer";

/** Identifies a session whose client has authenticated to the sending node. */
type SessionAddress = ReturnType<typeof sessionAddress> & { readonly tenant: string };

interface AnswerMessage extends Omit<SessionAddress, "tenant"> {
  readonly question: RequestId;
  readonly units: number | null;
}

function sessionAddress({ server, principalId, claims: facts }: Session) {
  return { session: facts.id, server, principal: principalId ?? null };
}
