import { JSONPath } from "jsonpath-plus";

/** Queries data. */
export function authors(): unknown {
  const json = {
    store: {
      book: [
        { author: "A", price: 5 },
        { author: "B", price: 12 },
      ],
    },
  };
  return JSONPath({ path: "$.store.book[?(@.price > 10)].author", json });
}
