// Who is signed in, and the button that ends it.

import { post } from "../core/api.js";
import { key, setKey } from "../core/credentials.js";
import { h } from "../core/dom.js";
import { visible } from "../core/text.js";

/** The foot of the sidebar. `session`: the answer of `GET /session`. */
export function signedInAs(session) {
  const roles = session.roles.map(visible).join(", ");
  const name = visible(session.subject);
  return [
    h(
      "span",
      { class: "grow ellipsis", title: `${name}: ${roles}` },
      h("span", { class: "visually-hidden" }, "Signed in as "),
      name,
    ),
    signOutButton(session),
  ];
}

/** Null if a proxy has authenticated the person. */
export function signOutButton(session) {
  if (!session.csrf && !key()) return null;
  return h("button", { class: "btn quiet", type: "button", onclick: () => signOut(session) }, "Sign out");
}

async function signOut(session) {
  if (key()) setKey(null);
  else if (session.csrf) await post("/logout").catch(() => {}); // it may have ended already
  location.reload();
}
