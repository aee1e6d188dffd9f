import type { TestContext } from "node:test";
import type { ClientSession, SessionOpener } from "./client-session.ts";
import { officialSession } from "./official-session.ts";
import { olderSession } from "./older-session.ts";

/** The libraries that clients are built on, in each era and over each transport. */
export const everySession: readonly SessionOpener[] = [
  officialSession("auto"),
  officialSession("modern"),
  officialSession("legacy"),
  olderSession("Streamable HTTP"),
  olderSession("HTTP+SSE"),
];

/** A session that is closed at the end of the test. */
export async function sessionFor(t: TestContext, opener: SessionOpener, url: string): Promise<ClientSession> {
  const session = await opener.open(url);
  t.after(() => session.close());
  return session;
}
