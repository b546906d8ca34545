import Foundation

extension World {
    /// A port for the first dialect of a pailstore whose command names it; the others follow it. They lie below the ports that the
    /// kernel gives to clients.
    func portOfPailstore() async throws -> String {
        try await python(
            """
            import random, socket

            def is_free(port):
                with socket.socket() as listener:
                    try:
                        listener.bind(("127.0.0.1", port))
                        return True
                    except OSError:
                        return False

            ports = random.sample(range(10000, 30000), 1000)
            print(next(port for port in ports if all(is_free(port + dialect) for dialect in range(5))))
            """
        ).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
