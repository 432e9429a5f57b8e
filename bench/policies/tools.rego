package office

deny if {
	input.tool == "fs.read"
	strings.any_prefix_match(concat("", [input.args.path, "/"]), ["/srv/secrets/", "/srv/keys/"])
}

deny if {
	input.tool == "fs.read"
	input.args.lines > 1000
}

permit if {
	input.tool == "fs.read"
	some role in input.caller.roles
	role in {"clerk", "dev"}
	strings.any_prefix_match(concat("", [input.args.path, "/"]), ["/srv/data/", "/srv/work/"])
}

deny if {
	input.tool == "fs.write"
	strings.any_prefix_match(concat("", [input.args.path, "/"]), ["/srv/secrets/", "/srv/keys/"])
}

deny if {
	input.tool == "fs.write"
	endswith(input.args.path, ".sh")
}

permit if {
	input.tool == "fs.write"
	"dev" in input.caller.roles
	strings.any_prefix_match(concat("", [input.args.path, "/"]), ["/srv/work/"])
}

deny if {
	input.tool == "fs.delete"
	input.args.recursive == true
}

permit if {
	input.tool == "fs.delete"
	"maintainer" in input.caller.roles
	strings.any_prefix_match(concat("", [input.args.path, "/"]), ["/srv/work/tmp/"])
}

deny if {
	input.tool == "git.push"
	input.args.force == true
}

deny if {
	input.tool == "git.push"
	input.args.branch in {"main", "release"}
	not "maintainer" in input.caller.roles
}

permit if {
	input.tool == "git.push"
	"dev" in input.caller.roles
}

deny if {
	input.tool == "web.get"
	endswith(input.args.host, ".internal")
}

permit if {
	input.tool == "web.get"
	some role in input.caller.roles
	role in {"clerk", "dev"}
	input.args.host in {"docs.example", "go.dev", "news.example", "wiki.example"}
}

deny if {
	input.tool == "mail.send"
	input.args.files > 5
}

permit if {
	input.tool == "mail.send"
	some role in input.caller.roles
	role in {"clerk", "support"}
	endswith(input.args.to, "@corp.example")
}

deny if {
	input.tool == "pay.send"
	input.args.amount > 1000000
}

deny if {
	input.tool == "pay.send"
	input.args.amount > 100000
	not "treasurer" in input.caller.roles
}

deny if {
	input.tool == "pay.send"
	not input.args.to in {$PAYEES}
}

permit if {
	input.tool == "pay.send"
	"clerk" in input.caller.roles
	input.args.currency in {"EUR", "USD"}
}

deny if {
	input.tool == "pay.list"
	input.args.last > 100
}

permit if {
	input.tool == "pay.list"
	some role in input.caller.roles
	role in {"clerk", "auditor"}
}

deny if {
	input.tool == "db.query"
	input.args.table in {"users", "tokens", "salaries"}
	not "dba" in input.caller.roles
}

deny if {
	input.tool == "db.query"
	input.args.limit > 10000
}

permit if {
	input.tool == "db.query"
	some role in input.caller.roles
	role in {"analyst", "dba"}
}

deny if {
	input.tool == "db.update"
	startswith(input.args.table, "audit_")
}

deny if {
	input.tool == "db.update"
	input.args.rows > 100
}

permit if {
	input.tool == "db.update"
	"dba" in input.caller.roles
}

deny if {
	input.tool == "ticket.close"
	not input.args.reason
}

permit if {
	input.tool == "ticket.close"
	"support" in input.caller.roles
}

deny if {
	input.tool == "profile.update"
	input.args.field == "role"
	not "hr" in input.caller.roles
}

deny if {
	input.tool == "profile.update"
	input.args.user != input.caller.id
	not "hr" in input.caller.roles
}

permit if input.tool == "profile.update"
