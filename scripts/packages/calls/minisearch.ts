import MiniSearch from "minisearch";

/** Finds documents. */
export function found(): { id: unknown; title: unknown }[] {
  const search = new MiniSearch({ fields: ["title", "text"], storeFields: ["title"] });
  search.addAll([
    { id: 1, title: "Moby Dick", text: "Call me Ishmael. Some years ago..." },
    { id: 2, title: "Zen and the Art of Motorcycle Maintenance", text: "I can see by my watch..." },
    { id: 3, title: "Neuromancer", text: "The sky above the port was..." },
  ]);
  return search.search("zen art motorcycle").map(({ id, title }) => ({ id: id as unknown, title: title as unknown }));
}
