import { isCid } from "../../../lib/cid.ts";

/** A part of a text; `cid` when it is one and leads to its page. */
export interface Piece {
  readonly text: string;
  readonly cid: boolean;
}

const CID_LIKE = /\bba(?:fkrei|guqeera)[a-z2-7]{40,60}\b/g;

/** Cuts a text so that each CID in it can be a link, but for `unlinked`. */
export function linkCids(text: string, unlinked?: unknown): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(CID_LIKE)) {
    if (found === unlinked || !isCid(found)) continue;
    if (index > end) pieces.push({ text: text.slice(end, index), cid: false });
    pieces.push({ text: found, cid: true });
    end = index + found.length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), cid: false });
  return pieces;
}
