import { makeImage } from "./boot.ts";
import { namedFromHere, type OwnFolder, prepareData, shownFolder } from "./own-folder.ts";
import { counted, countProblems, printProblems } from "./print-problems.ts";

/**
 * Makes the image of a folder, of which only what changed is compiled, and prints every problem. A server with an error is
 * refused, and the others are served; false where the list of servers itself cannot be read, and nothing was changed.
 */
export async function makeFolderImage(own: OwnFolder): Promise<boolean> {
  prepareData(own);
  const { status, problems, compiled } = await makeImage(own.folder, own.image, { refusesServers: true });
  printProblems(namedFromHere(problems, own.folder));
  const shown = shownFolder(own.folder);
  if (status === "bad-sources") {
    console.error(`${countProblems(problems)} in ${shown}: its list of servers cannot be read, so nothing is served.`);
    return false;
  }
  if (compiled > 0) console.error(`Compiled ${counted(compiled, "definition")} of ${shown}.`);
  const errors = problems.filter(({ severity }) => severity === "error");
  if (errors.length > 0) {
    console.error(`${countProblems(errors)} in ${shown}: servers with errors are refused, and the others are served.`);
  }
  return true;
}
