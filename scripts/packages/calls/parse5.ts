import * as parse5 from "parse5";

/** Reads HTML as the standard says, and writes it. */
export function html(): string {
  return parse5.serialize(parse5.parse("<!DOCTYPE html><p>Hi there!<p>Two"));
}
