import { Storage } from "@google-cloud/storage";

/** Saves a file, and downloads it. */
export async function file(at: string): Promise<{ uri: string; text: string }> {
  const storage = new Storage({ projectId: "project", apiEndpoint: `http://${at}`, useAuthWithCustomEndpoint: false });
  const file = storage.bucket("my-bucket").file("folder/my file.txt");
  await file.save("content", { resumable: false, validation: false });
  const [content] = await file.download({ validation: false });
  return { uri: file.cloudStorageURI.href, text: content.toString() };
}
