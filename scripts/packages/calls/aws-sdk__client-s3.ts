import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";

/** Gets an object from a function of the definition's own that answers instead of the network. */
export async function object(): Promise<{ request: string; isSigned: boolean; text: string | undefined }> {
  let request = "";
  let isSigned = false;
  const client = new S3Client({
    region: "us-east-1",
    credentials: { accessKeyId: "none", secretAccessKey: "none" },
    requestHandler: {
      handle: async ({ method, hostname, path, headers }: Request) => {
        request = `${method} ${hostname}${path}`;
        isSigned = headers["authorization"]?.startsWith("AWS4-HMAC-SHA256") ?? false;
        return { response: { statusCode: 200, headers: {}, body: new Blob(["content"]).stream() } };
      },
    },
  });
  const { Body } = await client.send(new GetObjectCommand({ Bucket: "bucket", Key: "a/b.txt" }));
  return { request, isSigned, text: await Body?.transformToString() };
}

interface Request {
  method: string;
  hostname: string;
  path: string;
  headers: Record<string, string>;
}
