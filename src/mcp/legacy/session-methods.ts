import { BerthError } from "../../lib/errors.ts";
import { isLogLevel, LOG_LEVELS } from "../../lib/log-level.ts";
import type { Method, MethodCall } from "../protocol.ts";
import type { LegacyClient, Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";

/** A session remembers its subscriptions, so they must be small. */
const URI_CHARACTERS_MAX = 2_048;
/** The limit for all of them together: they are written whenever one is added or removed. */
const URIS_CHARACTERS_MAX = 64 * 1_024;

/** The methods that change which messages a session gets. */
export function sessionMethods(
  sessions: Sessions,
  subscriptionsPerSession: number,
): readonly (readonly [string, Method])[] {
  return [
    ["logging/setLevel", saved(setLevel)],
    ["resources/subscribe", saved((session, call) => subscribe(session, call, subscriptionsPerSession))],
    ["resources/unsubscribe", saved((session, call) => session.subscriptions.delete(uriOf(call)))],
  ];

  /** Answers once the change is stored, so that it holds whatever happens to the process. */
  function saved(change: (session: Session, call: MethodCall) => unknown): Method {
    return async (call) => {
      const session = sessionOf(call);
      await change(session, call);
      // Saves even if nothing changed here: another process may have made another change.
      await sessions.save(session);
      return "{}";
    };
  }
}

function setLevel(session: Session, call: MethodCall): void {
  const { level } = call.params;
  if (!isLogLevel(level)) {
    throw new BerthError("invalid_params", `"level" must be one of ${LOG_LEVELS.join(", ")}`);
  }
  session.logLevel = level;
}

async function subscribe({ subscriptions }: Session, call: MethodCall, subscriptionsMax: number): Promise<void> {
  const uri = uriOf(call);
  if (uri.length > URI_CHARACTERS_MAX) {
    throw new BerthError("invalid_params", `"uri" has at most ${URI_CHARACTERS_MAX} characters in a subscription`);
  }
  if (!(await call.catalog.resource(uri))) throw new BerthError("resource_not_found", uri, { data: { uri } });
  if (subscriptions.has(uri)) return;
  if (subscriptions.size >= subscriptionsMax) {
    throw new BerthError("invalid_params", `a session has at most ${subscriptionsMax} subscriptions`);
  }
  let characters = uri.length;
  for (const each of subscriptions) characters += each.length;
  if (characters > URIS_CHARACTERS_MAX) {
    throw new BerthError(
      "invalid_params",
      `the subscriptions of a session have at most ${URIS_CHARACTERS_MAX} characters`,
    );
  }
  subscriptions.add(uri);
}

function uriOf({ params: { uri } }: MethodCall): string {
  if (typeof uri !== "string") throw new BerthError("invalid_params", '"uri" must be a text');
  return uri;
}

function sessionOf({ client, method }: MethodCall): Session {
  const { peer } = client as LegacyClient;
  if (peer) return peer;
  throw new BerthError("invalid_request", `${method} needs the session that initialize gives; send Mcp-Session-Id`);
}
