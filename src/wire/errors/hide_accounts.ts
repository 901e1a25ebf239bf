/** What stands where an id of the provider's account was. */
export const HIDDEN_ACCOUNT = "[account]";

/** Names of members whose value tells whose account it is. */
const OWNERS =
  "organi[sz]ation|org|account|acct|project|workspace|tenant|subscription|team|customer|user|billing[_ -]?account|resource[_ -]?group";

/** Accounts of these names are public: they are part of the names of models. */
const PUBLIC_ACCOUNTS = "fireworks";

const ACCOUNTS: readonly [pattern: RegExp, replacement: string][] = [
  // user@company.com
  [/(?<![\w.+-])[\w.+-]{1,64}@[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]/gi, HIDDEN_ACCOUNT],
  [/\barn:[a-z0-9-]{2,20}:[^\s"'`<>,;)]{3,500}/gi, HIDDEN_ACCOUNT],
  // Keys as providers repeat them: sk-proj-****abcd.
  [/(?<![\w-])[a-z]{2,10}[-_][\w-]{0,100}(?:\*{2,200}|\.{3}|…)[\w*]{0,100}/gi, HIDDEN_ACCOUNT],
  // Ids that their prefix gives away: org-…, proj_…, acct_….
  [/(?<![\w-])(?:proj|acct|wrkspc|cus)[-_][A-Za-z0-9][\w-]{2,100}/g, HIDDEN_ACCOUNT],
  [/(?<![\w-])org[-_](?=[\w-]{0,100}[\dA-Z])[A-Za-z0-9][\w-]{2,100}/g, HIDDEN_ACCOUNT],
  [/(?<![\w-])org[-_][a-z]{12,100}(?![\w-])/g, HIDDEN_ACCOUNT],
  [
    /(?<![\w-])(?:user|team|tenant|workspace|project|account|sub|key)[-_](?=[\w-]{0,100}\d)[A-Za-z0-9][\w-]{5,100}/g,
    HIDDEN_ACCOUNT,
  ],
  // projects/1234, accounts/acme
  [
    new RegExp(
      `\\b((?:${OWNERS})s?/)(?!(?:${PUBLIC_ACCOUNTS})/)[\\w.:@-]{2,128}`,
      "gi",
    ),
    `$1${HIDDEN_ACCOUNT}`,
  ],
  // project_number:1234, account 123456789012, organization (9f0c…), user id 'abc123'
  [
    new RegExp(
      `\\b((?:${OWNERS})(?:[_ -]?(?:id|number|name|uuid))?["'\`\\s:=#(]{1,6})(?=[\\w-]{0,128}\\d)[A-Za-z0-9][\\w-]{5,128}`,
      "gi",
    ),
    `$1${HIDDEN_ACCOUNT}`,
  ],
];

const HINT = new RegExp(`[@*…]|\\.{3}|arn:|proj|acct|cus|wrk|sub|key|${OWNERS}`, "i");

/** The text without ids of the provider's account: organizations, projects, users, and keys that are shown in part. */
export function hideAccounts(text: string): string {
  if (!HINT.test(text)) return text;
  return ACCOUNTS.reduce((out, [pattern, mark]) => out.replace(pattern, mark), text);
}

/** True for names of members that hold an id of the provider's account. */
export function isAccountName(name: string): boolean {
  return ACCOUNT_NAME.test(name);
}

const ACCOUNT_NAME = new RegExp(`^(?:${OWNERS})s?(?:[_-]?(?:id|ids|number|name|uuid))?$`, "i");
