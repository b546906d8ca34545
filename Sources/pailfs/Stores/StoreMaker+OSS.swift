import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// Alibaba Cloud OSS.
    func oss() throws(ObjectStoreError) -> Provider {
        let sources = try request.ossCredentials()
        var profile = FamilyProfile.oss(cnameExclusions: settings.nameExclusions, path: settings.pathStyle)
        if settings.signature == .v1 { profile.signer = OSSV1Signer() }
        return try family(
            profile, credentials(), endpoint: endpoint(sources.endpoint),
            region: settings.region ?? sources.region)
    }
}
