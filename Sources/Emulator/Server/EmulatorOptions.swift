package import Basics

/// Who may sign, and with what.
package struct EmulatorCredentials: Sendable {
    package var accessKey: String
    package var secretKey: String
    /// When set, requests must carry it.
    package var sessionToken: String?

    package init(
        accessKey: String = "pailstore", secretKey: String = "pailstore-secret", sessionToken: String? = nil
    ) {
        (self.accessKey, self.secretKey, self.sessionToken) = (accessKey, secretKey, sessionToken)
    }
}

/// How a server is set up.
package struct EmulatorOptions: Sendable {
    package var host = "127.0.0.1"
    /// 0 lets the kernel choose.
    package var port = 0
    /// Serve addresses other machines reach.
    package var allowsRemote = false
    package var credentials = EmulatorCredentials()
    /// The region of buckets made without one.
    package var region = "us-east-1"
    /// Buckets to make unless they are there.
    package var buckets: [String] = []
    /// Host names whose first labels are a bucket, besides Amazon's.
    package var domains = ["localhost"]
    package var requestLog: String?
    package var faults: [FaultSpec] = []
    package var seed: UInt64 = 0
    /// Writes wait for the disk.
    package var sync = false
    /// In bytes; binds all parts of an upload but the last.
    package var smallestPart: Int64 = 5 << 20
    /// How long an archived object takes to be restored.
    package var restoreDelay = Duration.seconds(1)
    package var time: any TimeSource = SystemTime()
    /// Threads that do the blocking work.
    package var workers = 8
    /// Takes sentences for the operator.
    package var report: @Sendable (String) -> Void = { _ in }

    package init() {}
}
