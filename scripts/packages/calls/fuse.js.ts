import Fuse from "fuse.js";

/** Finds titles that are written wrongly. */
export function found(): string[] {
  const books = [{ title: "Old Man's War" }, { title: "The Lock Artist" }, { title: "HTML5" }];
  return new Fuse(books, { keys: ["title"] }).search("lok artst").map(({ item }) => item.title);
}
