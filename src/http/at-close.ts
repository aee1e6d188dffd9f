import type { ServerResponse } from "node:http";

/** Something that lasts until a response is over: written whole, or given up by its client. */
export interface Ending {
  leave(isWhole: boolean): void;
}

const ENDINGS = Symbol("endings");
type Watched = ServerResponse & { [ENDINGS]?: Ending | Ending[] };

/** Has `ending` leave when the response is over. One listener does for all: each one more is work for every call. */
export function atClose(response: ServerResponse, ending: Ending): void {
  // Whose client went before it was known whose request it is has closed already.
  if (response.closed) return ending.leave(false);
  const watched = response as Watched;
  const others = watched[ENDINGS];
  if (others === undefined) {
    watched[ENDINGS] = ending;
    response.on("close", tellEndings);
  } else if (Array.isArray(others)) others.push(ending);
  else watched[ENDINGS] = [others, ending];
}

function tellEndings(this: ServerResponse): void {
  const { [ENDINGS]: endings, writableFinished } = this as Watched;
  if (!Array.isArray(endings)) endings!.leave(writableFinished);
  else for (const ending of endings) ending.leave(writableFinished);
}
