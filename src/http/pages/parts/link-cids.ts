import { isCid } from "../../../lib/cid.ts";

/** A part of a text; `cid` is true for a CID, which links to its page. */
export interface Piece {
  readonly text: string;
  readonly cid: boolean;
}

const CID_LIKE = /\bba(?:fkrei|guqeera)[a-z2-7]{40,60}\b/g;

/** Splits a text so that each CID in it, except `unlinked`, can be a link. */
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
