/** The form of the hub's own keys; the group is the place of the key's row. */
export const API_KEY_FORM = /^lh_([0-9a-f]{16})_[0-9A-Za-z]{49}$/;
