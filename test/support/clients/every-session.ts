import type { SessionOpener } from "./client-session.ts";
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
