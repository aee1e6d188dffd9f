import nlp from "compromise";

/** Changes a sentence. */
export function sentence(): { past: string; verbs: string[] } {
  const doc = nlp("she sells seashells by the seashore.");
  doc.verbs().toPastTense();
  return { past: doc.text(), verbs: doc.verbs().out("array") as string[] };
}
