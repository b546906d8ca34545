import Testing

@testable import pailfs

@Suite struct FluidConfigTests {
    private func config(_ text: String, files: [String: String] = [:]) throws -> FluidConfig {
        try FluidConfig(Array(text.utf8)) { files[$0] }
    }

    @Test func oneMountIsAtTheTargetItself() throws {
        let config = try config(
            """
            {"mounts": [{"mountPoint": "s3://bucket/data", "name": "data", "options": {
                "endpoint": "http://store:9000", "path-style": "", "header": "X-A: b,c",
                "access-key-id": "/etc/fluid/secrets/keys/id", "secret_access_key": "plain"}}],
             "targetPath": "/runtime-mnt/thin/", "accessModes": ["ReadWriteMany"], "runtimeOptions": {}}
            """, files: ["/etc/fluid/secrets/keys/id": "KEY\n"])
        #expect(
            config.mounts == [
                FluidConfig.Mount(
                    url: "s3://bucket/data", place: "/runtime-mnt/thin",
                    options: ["endpoint=http://store:9000", "header=X-A: b\\,c", "path-style"],
                    environment: ["PAILFS_ACCESS_KEY_ID": "KEY", "PAILFS_SECRET_ACCESS_KEY": "plain"])
            ])
    }

    @Test func severalAreBelowItUnderTheirNamesOrPaths() throws {
        let config = try config(
            """
            {"mounts": [{"mountPoint": "s3://a", "name": "first"},
                        {"mountPoint": "oss://b", "name": "b", "path": "/deep/er", "readOnly": true}],
             "targetPath": "/t"}
            """)
        #expect(config.mounts.map(\.place) == ["/t/first", "/t/deep/er"])
        #expect(config.mounts.map(\.options) == [[], ["ro"]])
    }

    @Test(arguments: [#"["ReadOnlyMany"]"#, #"["ReadOnlyMany","ReadOnlyOnce"]"#])
    func modesThatOnlyReadMountReadOnly(_ modes: String) throws {
        let config = try config(
            #"{"mounts":[{"mountPoint":"s3://a"}],"targetPath":"/t","accessModes":\#(modes)}"#)
        #expect(config.mounts.first?.options == ["ro"])
    }

    @Test func aKeyMayBeginWithASlash() throws {
        let config = try config(
            #"{"mounts":[{"mountPoint":"s3://a","path":"","options":{"secret-access-key":"/k+y="}}],"targetPath":"/t"}"#
        )
        #expect(config.mounts.first?.environment == ["PAILFS_SECRET_ACCESS_KEY": "/k+y="])
        #expect(config.mounts.first?.place == "/t")
    }

    @Test(arguments: [
        ("", "is not a JSON object"), (#"{"mounts":[]}"#, "is not a JSON object"),
        (#"{"mounts":[],"targetPath":"t"}"#, "is not an absolute path"),
        (#"{"mounts":[{"mountPoint":"s3://a","path":"/../x"}],"targetPath":"/t"}"#, "needs a name or a path"),
        (#"{"mounts":[{"mountPoint":"s3://a"},{"mountPoint":"s3://b"}],"targetPath":"/t"}"#, "needs a name or a path"),
        (
            #"{"mounts":[{"mountPoint":"s3://a","options":{"access-key-id":"/etc/fluid/secrets/k"}}],"targetPath":"/t"}"#,
            "names the file /etc/fluid/secrets/k, which cannot be read"
        ),
        (
            #"{"mounts":[{"mountPoint":"s3://a","path":"/"},{"mountPoint":"s3://b","name":"b"}],"targetPath":"/t"}"#,
            "needs a name or a path"
        ),
    ])
    func whatCannotBeUsedIsAnError(_ text: String, _ reason: String) throws {
        let error = #expect(throws: CommandError.self) { try config(text) }
        #expect(error?.message.contains(reason) == true, "\(String(describing: error))")
    }
}
