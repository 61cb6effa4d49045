// The pictures in the result of a tool, as `data:` addresses. Pure.

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST = 8;

/** The addresses of the pictures among the content blocks of a result, at most `MOST`. Other formats are left
 * out: SVG, for instance, can contain a program. */
export function pictureAddresses(blocks) {
  return (blocks ?? [])
    .map((block) =>
      block?.type === "resource"
        ? { mimeType: block.resource?.mimeType, data: block.resource?.blob }
        : { mimeType: block?.type === "image" ? block.mimeType : null, data: block?.data },
    )
    .filter(({ mimeType, data }) => TYPES.includes(mimeType) && /^[A-Za-z0-9+/]+={0,2}$/.test(data ?? ""))
    .slice(0, MOST)
    .map(({ mimeType, data }) => `data:${mimeType};base64,${data}`);
}
