// Nothing else here: closures of this file belong to the main actor, which libfuse's threads are not.
Entry.run(CommandLine.arguments)
