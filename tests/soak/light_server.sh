# An MCP server over stdio that costs no more than a shell does: it takes what the hub sends in the order of a first connection.
while read -r line; do
  id=$(printf %s "$line" | grep -o '"id":[0-9]*' | head -n 1)
  [ -n "$id" ] || continue
  case $line in
    *'"initialize"'*) said='"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"light","version":"0"}' ;;
    *'"tools/list"'*) said='"tools":[{"name":"good","inputSchema":{"type":"object"}}]' ;;
    *) said='"content":[{"type":"text","text":"called"}]' ;;
  esac
  printf '{"jsonrpc":"2.0",%s,"result":{%s}}\n' "$id" "$said"
done
