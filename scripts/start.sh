# `npm start`: the demo with the console. Node needs seconds to load and to start PostgreSQL, so a line says it at once.
[ -n "$DATABASE_URL" ] || echo 'Starting PostgreSQL…' >&2
ADMIN_PORT=${ADMIN_PORT:-3001} exec node src/main.ts serve --demo --console "$@"
